"""The outbox: a record exists if and only if its payment does, in a real SQLite file and a real PostgreSQL."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from audits import VERIFIED, audit_of
from sqlalchemy import Column, Engine, ForeignKey, MetaData, String, Table, create_engine, event, insert, select, text
from sqlalchemy.exc import IntegrityError, OperationalError, SQLAlchemyError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.util import greenlet_spawn

from refusals import refused
from tppkit.errors import ArchiveError, ConfigurationError, FormatError
from tppkit.evidence import EvidenceArchive, EvidenceRecord, make_record
from tppkit.evidence.archive import read_lines
from tppkit.evidence.outbox import MAX_BATCH, Outbox
from tppkit.seals import VerifiedRequest

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("CRASH_KILLS", "5"))


class Bank:
    """A bank's application: payments of accounts, and the evidence of each in the same transaction."""

    def __init__(self, url: str, folder: Path, verified: VerifiedRequest) -> None:
        self.folder, self.verified = folder, verified
        self.engine: Engine = create_engine(url)
        if self.engine.dialect.name == "sqlite":
            event.listen(self.engine, "connect", lambda db, _: db.execute("PRAGMA foreign_keys=ON"))
        self.start()
        self.metadata.create_all(self.engine)

    def start(self) -> None:
        """As a process starts: everything but the files and the database is new."""
        self.metadata = MetaData()
        Table("outbox_accounts", self.metadata, Column("id", String(40), primary_key=True))
        account = ForeignKey("outbox_accounts.id", deferrable=True, initially="DEFERRED")
        self.payments = Table(
            "outbox_payments",
            self.metadata,
            Column("id", String(40), primary_key=True),
            Column("account", String(40), account),
        )
        self.archive = EvidenceArchive(self.folder, stream_id="5a" * 16)
        self.outbox = Outbox(self.archive, self.metadata)

    def restart(self) -> None:
        self.archive.close()
        self.start()

    def record(self, payment: str, **columns: object) -> EvidenceRecord:
        return replace(make_record(self.verified, http_status=201, payment_ref=payment), **columns)

    def pay(self, *payments: str, account: str | None = None) -> None:
        with self.engine.begin() as db:
            for payment in payments:
                db.execute(insert(self.payments), {"id": payment, "account": account})
                self.outbox.add(db, self.record(payment), *self.verified.chain, self.verified.qwac)

    def pending(self) -> int:
        with self.engine.connect() as db:
            return len(self.outbox.pending(db))

    def archive_pending(self) -> None:
        """As a drain does before it removes the rows."""
        with self.engine.connect() as db:
            self.outbox.archive(self.outbox.pending(db))

    def paid(self) -> list[str]:
        with self.engine.connect() as db:
            return list(db.scalars(select(self.payments.c.id)))

    def recorded(self) -> list[str | None]:
        return [EvidenceRecord.from_line(line).payment_ref for _, line in read_lines(self.folder)]

    def close(self) -> None:
        self.archive.close()
        self.metadata.drop_all(self.engine)
        self.engine.dispose()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'bank.sqlite'}"
    address: str = request.getfixturevalue("postgresql_url")
    return address.replace("postgresql:", "postgresql+psycopg:")


@pytest.fixture
def bank(url: str, tmp_path: Path, make_verified: Callable[..., VerifiedRequest]) -> Iterator[Bank]:
    bank = Bank(url, tmp_path / "archive", make_verified(0))
    yield bank
    bank.close()


def test_committed_records_are_moved_to_the_archive_in_order(bank, paths):
    bank.pay("a")
    bank.pay("b", "c")
    assert (bank.recorded(), bank.pending()) == ([], 3)
    assert (bank.outbox.drain(bank.engine), bank.outbox.drain(bank.engine), bank.pending()) == (3, 0, 0)
    assert bank.recorded() == ["a", "b", "c"]
    kept = [EvidenceRecord.from_line(line) for _, line in read_lines(bank.folder)]
    assert len({record.outbox_id for record in kept}) == 3
    assert kept[0] == bank.record("a", stream_id="5a" * 16, outbox_id=kept[0].outbox_id)
    assert audit_of(bank.folder, paths).exit_code == 0


def test_each_drain_is_counted(bank):
    counted: list[object] = []
    metadata = MetaData()
    outbox = Outbox(bank.archive, metadata, name="counted_outbox", count=lambda *given: counted.append(given[:2]))
    with pytest.raises(SQLAlchemyError) as failed:  # there is no such table
        outbox.drain(bank.engine)
    metadata.create_all(bank.engine)
    assert outbox.drain(bank.engine) == 0
    metadata.drop_all(bank.engine)
    assert counted == [("failed", type(failed.value).__name__), ("drained", "")]


def test_more_rows_than_a_batch_are_drained(bank):
    numbers = [str(number) for number in range(1203)]
    bank.pay(*numbers)
    assert (bank.outbox.drain(bank.engine), bank.recorded()) == (1203, numbers)


def test_a_transaction_that_is_rolled_back_leaves_no_record(bank):
    with bank.engine.connect() as db:
        bank.outbox.add(db, bank.record("a"), *bank.verified.chain)
        db.rollback()
    with pytest.raises(IntegrityError):  # a constraint that is checked by the commit
        bank.pay("b", account="nobody's")
    bank.pay("c")
    assert (bank.outbox.drain(bank.engine), bank.recorded(), bank.paid()) == (1, ["c"], ["c"])
    assert not bank.outbox._read  # nor any memory


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_full_disk_leaves_neither_payment_nor_record(bank):
    bank.engine.dispose()
    event.listen(bank.engine, "connect", lambda db, _: db.execute("PRAGMA max_page_count=20"))
    acknowledged = []

    def pay_on() -> None:
        for number in range(10, 99):
            bank.pay(str(number))
            acknowledged.append(str(number))

    with pytest.raises(OperationalError, match="full"):
        pay_on()
    assert bank.outbox.drain(bank.engine) == len(acknowledged) > 0
    assert bank.recorded() == sorted(bank.paid()) == acknowledged


def test_rows_that_were_archived_before_a_crash_are_not_archived_again(bank):
    bank.pay("a", "b")
    bank.archive_pending()
    bank.outbox.drain(bank.engine)  # also within the process, if it could not remove them
    bank.pay("c", "d")
    bank.archive_pending()
    bank.restart()
    bank.pay("e")
    assert (bank.outbox.drain(bank.engine), bank.recorded()) == (3, ["a", "b", "c", "d", "e"])


def test_rows_are_distinguished_by_their_ids_if_a_number_is_used_again(bank):
    bank.pay("a")
    with bank.engine.connect() as db:
        first = bank.outbox.pending(db)
    bank.outbox.drain(bank.engine)
    again = "DELETE FROM sqlite_sequence"
    if bank.engine.dialect.name == "postgresql":
        again = "TRUNCATE tppkit_evidence_outbox RESTART IDENTITY"
    with bank.engine.begin() as db:
        db.execute(text(again))
    bank.restart()
    bank.pay("b")
    with bank.engine.begin() as db:
        bank.outbox.remove(db, first)
    assert (bank.outbox.drain(bank.engine), bank.recorded()) == (1, ["a", "b"])


def test_row_numbers_are_not_used_again(bank):
    numbers = []
    for payment in "ab":
        bank.pay(payment)
        with bank.engine.connect() as db:
            numbers += [number for number, _, _ in bank.outbox.pending(db)]
        bank.outbox.drain(bank.engine)
    assert numbers[1] > numbers[0]


def test_a_batch_that_a_crash_cut_off_is_completed(bank, paths):
    bank.pay("a", "b", "c")
    bank.archive_pending()
    records = bank.folder / "records.jsonl"
    first, second, _ = records.read_bytes().splitlines(keepends=True)
    records.write_bytes(first + second[:100])
    bank.restart()
    assert (bank.outbox.drain(bank.engine), bank.recorded()) == (3, ["a", "b", "c"])
    assert audit_of(bank.folder, paths).exit_code == 0


def test_threads_may_add_and_drain_at_the_same_time(bank, paths):
    names = [str(number) for number in range(60)]
    with ThreadPoolExecutor(4) as threads:
        drained = [threads.submit(bank.outbox.drain, bank.engine) for _ in range(20)]
        list(threads.map(bank.pay, names))
        assert all(future.result() >= 0 for future in drained)
    bank.outbox.drain(bank.engine)
    assert (sorted(bank.recorded()), bank.pending(), audit_of(bank.folder, paths).exit_code) == (sorted(names), 0, 0)


@pytest.mark.parametrize("name", ["records.jsonl", "certs", None], ids=["records", "certificates", "closed"])
def test_rows_stay_while_the_archive_fails_or_a_file_of_it_is_gone(name, bank):
    bank.pay("a")
    if name is None:
        bank.archive.close()
    else:
        (bank.folder / name).rename(bank.folder / "moved")
    with refused(ArchiveError, "archive.unusable"):
        bank.pay("b") if name == "certs" else bank.outbox.drain(bank.engine)
    assert (bank.paid(), bank.pending()) == (["a"], 1)
    if name is None:
        bank.restart()
    else:
        (bank.folder / "moved").rename(bank.folder / name)
    assert (bank.outbox.drain(bank.engine), bank.recorded()) == (1, ["a"])


def test_a_damaged_earlier_line_of_the_archive_is_skipped_and_logged(bank, caplog):
    bank.pay("a", "b", "c")
    bank.archive_pending()  # and a crash before the rows are removed
    records = bank.folder / "records.jsonl"
    lines = records.read_bytes().splitlines(keepends=True)
    records.write_bytes(lines[0] + b"\0" * 9_000_000 + b"\n\n" + lines[2])
    bank.restart()
    assert [(entry.levelname, entry.name) for entry in caplog.records] == [("ERROR", "tppkit.evidence")] * 2
    assert f"offset {len(lines[0])} " in caplog.text
    bank.archive_pending()
    whole = [line for line in records.read_bytes().splitlines() if line[:1] == b"{"]
    refs = [EvidenceRecord.from_line(line).payment_ref for line in whole]
    assert refs == ["a", "c", "b"]  # only the id of the damaged line is not known any more


@pytest.mark.parametrize("damage", [b"", b"{}", b"[1]", b"\xff"])
def test_a_row_that_is_not_a_record_is_named_and_stays(damage, bank):
    bank.pay("a", "b")
    with bank.engine.begin() as db:
        statement = text("UPDATE tppkit_evidence_outbox SET record = :damage WHERE number = 2")
        db.execute(statement, {"damage": damage})
    with refused(ArchiveError, "outbox.damaged", match="row 2 "):
        bank.outbox.drain(bank.engine)
    assert (bank.pending(), bank.recorded()) == (2, [])


@pytest.mark.parametrize(
    ("columns", "code"),
    [
        ({"payment_ref": uuid4()}, "record.malformed"), ({"payment_ref": 7}, "record.malformed"),
        ({"payment_ref": "\udc80"}, "record.malformed"), ({"http_status": -1}, "record.malformed"),
        ({"received_at": None}, "record.malformed"), ({"extra": {"share": 0.5}}, "record.malformed"),
        ({"extra": {"deep": [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}}, "json.too-deep"),
        ({"body": bytes(7_000_000)}, "json.too-large"), ({"v": 2}, "record.version"),
    ],
)  # fmt: skip
def test_a_record_that_could_not_be_archived_is_refused_when_it_is_added(columns, code, bank):
    with bank.engine.begin() as db, pytest.raises(FormatError) as caught:
        bank.outbox.add(db, bank.record("a", **columns))
    assert (caught.value.code, bank.pending()) == (code, 0)


def test_the_largest_record_fits_a_line(bank):
    room = 8 * 1024 * 1024 - 1024 - len(bank.record("a", body=None).unplaced()[0]) - len(',"body":""')
    with bank.engine.begin() as db:
        bank.outbox.add(db, bank.record("a", body=bytes(room // 4 * 3)))
    assert (bank.outbox.drain(bank.engine), bank.recorded()) == (1, ["a"])


def test_a_connection_that_would_commit_a_record_by_itself_is_refused(bank):
    engine = bank.engine
    with (
        engine.connect().execution_options(isolation_level="AUTOCOMMIT") as db,
        refused(ConfigurationError, "outbox.misused"),
    ):
        bank.outbox.add(db, bank.record("a"))
    if engine.dialect.name == "sqlite":  # which begins a transaction only behind the savepoint
        with engine.begin() as db, db.begin_nested(), refused(ConfigurationError, "outbox.misused"):
            bank.outbox.add(db, bank.record("a"))
    assert bank.pending() == 0


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("driver", ["pysqlite", "aiosqlite"])
def test_a_savepoint_after_a_begin_of_sqlalchemy_is_rolled_back_with_the_transaction(driver, bank):
    url = bank.engine.url.set(drivername=f"sqlite+{driver}")
    engine = create_async_engine(url).sync_engine if driver == "aiosqlite" else create_engine(url)
    event.listen(engine, "connect", lambda db, _: setattr(db, "isolation_level", None))
    event.listen(engine, "begin", lambda db: db.exec_driver_sql("BEGIN"))

    def pay() -> None:
        for payment in ("a", "b"):
            with engine.connect() as db, suppress(RuntimeError), db.begin():
                with db.begin_nested():
                    bank.outbox.add(db, bank.record(payment), *bank.verified.chain)
                if payment == "a":
                    raise RuntimeError
        engine.dispose()

    asyncio.run(greenlet_spawn(pay))
    assert (bank.outbox.drain(bank.engine), bank.recorded()) == (1, ["b"])


def test_other_processes_add_records_by_the_path_of_the_archive(bank, paths):
    worker = Outbox(bank.folder, MetaData())
    with bank.engine.begin() as db:
        worker.add(db, bank.record("a"), *bank.verified.chain, bank.verified.qwac)
    with pytest.raises(ConfigurationError) as caught:
        worker.drain(bank.engine)
    assert (caught.value.code, bank.outbox.drain(bank.engine)) == ("outbox.misused", 1)
    assert audit_of(bank.folder, paths).exit_code == 0


def test_until_the_commit_certificates_are_kept_and_records_are_not_read(bank):
    with bank.engine.connect() as db:
        bank.outbox.add(db, bank.record("a"), *bank.verified.chain)
        named = {certificate.sha256 for certificate in (*bank.verified.chain, bank.verified.qwac)}
        assert {path.stem for path in (bank.folder / "certs").iterdir()} == named
    with bank.engine.begin() as db:
        bank.outbox.add(db, bank.record("a"))
        with refused(ConfigurationError, "outbox.misused"):
            bank.outbox.pending(db)
        assert bank.pending() == 0
    assert bank.pending() == 1


def test_records_that_are_not_drained_are_not_all_held_in_memory(bank):
    record, held = bank.record("a"), 2 * MAX_BATCH
    with bank.engine.begin() as db:
        for _ in range(held + 100):
            bank.outbox.add(db, record)
    gc.collect()
    assert sum(type(one) is EvidenceRecord for one in gc.get_objects()) <= held + 50
    assert bank.outbox.drain(bank.engine) == held + 100


BANK = (
    VERIFIED
    + """
import os, threading
from dataclasses import replace
from uuid import uuid4
from sqlalchemy import Column, MetaData, String, Table, create_engine, insert
from tppkit.evidence.outbox import Outbox

url, folder = sys.argv[1:]
record = make_record(verified, http_status=201)
metadata = MetaData()
payments = Table("outbox_payments", metadata, Column("id", String(40), primary_key=True), Column("account", String(40)))
outbox = Outbox(EvidenceArchive(folder, stream_id="5a" * 16), metadata)
engine = create_engine(url, pool_size=20, **({"connect_args": {"timeout": 60}} if "sqlite" in url else {}))

def pay():
    while True:
        payment = str(uuid4())
        with engine.begin() as db:
            db.execute(insert(payments), {"id": payment})
            outbox.add(db, replace(record, payment_ref=payment), *verified.chain, verified.qwac)
        os.write(1, payment.encode() + b"\\n")

for _ in range(16):
    threading.Thread(target=pay, daemon=True).start()
while True:
    outbox.drain(engine)
"""
)


def test_no_kill_separates_a_payment_from_its_record(url, bank, paths):
    acknowledged: list[str] = []
    bank.archive.close()
    for kill in range(KILLS):
        command = [sys.executable, "-c", BANK, url, str(bank.folder)]
        environment = {**os.environ, "PGAPPNAME": "killed bank"}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            assert process.stdout is not None
            try:
                acknowledged += [process.stdout.readline() for _ in range(40 + 17 * (kill % 5))]
            finally:
                process.kill()
            acknowledged += process.stdout.readlines()
    if "postgresql" in url:  # its sessions outlive a killed client until they read from it
        sessions = "FROM pg_stat_activity WHERE application_name = 'killed bank'"
        with bank.engine.connect() as db:  # False is also the answer for one that has just ended
            db.scalars(text(f"SELECT pg_terminate_backend(pid, 120000) {sessions}")).all()
        with bank.engine.connect() as db:
            assert not db.scalars(text(f"SELECT pid {sessions}")).all()
    bank.start()
    bank.outbox.drain(bank.engine)
    recorded = Counter(bank.recorded())
    assert len(acknowledged) >= 40 * KILLS
    assert set(recorded.values()) == {1}
    assert recorded.keys() == set(bank.paid())
    assert {line.strip() for line in acknowledged if line.endswith("\n")} <= recorded.keys()
    assert audit_of(bank.folder, paths).exit_code == 0
