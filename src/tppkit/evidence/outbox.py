"""Store records in the transaction of the payment, and move them to the archive after its commit.

A record is inserted into a table together with the payment, so both are committed or neither is. `drain` appends committed records
to the archive, and deletes their rows when they are on disk. Each row has a random id, which the archived record has in the column
`outbox_id`. So a row that was archived but not deleted, because of a crash, is not archived again.
"""

from __future__ import annotations

import logging
import secrets
from collections import deque
from datetime import datetime
from threading import Lock
from time import monotonic
from typing import Any
from weakref import WeakSet

from tppkit._cache import Cache
from tppkit._clock import utc_now
from tppkit._extras import needs_extra
from tppkit._files import FilePath
from tppkit._handlers import call_count, require_run
from tppkit.certificates import EidasCertificate
from tppkit.errors import ArchiveError, ConfigurationError, FormatError, code_of
from tppkit.evidence.archive import EvidenceArchive
from tppkit.evidence.files import KeptFiles
from tppkit.evidence.record import EvidenceRecord
from tppkit.metrics import Count

with needs_extra("sqlalchemy"):
    from sqlalchemy import (  # fmt: skip
        BigInteger,
        Column,
        Connection,
        Engine,
        Integer,
        LargeBinary,
        MetaData,
        String,
        Table,
        bindparam,
        delete,
        insert,
        select,
    )

    from tppkit.sql.statement import Statement
    from tppkit.sql.transaction import transaction_fault

_LOG = logging.getLogger("tppkit.evidence")
TABLE = "tppkit_evidence_outbox"
MAX_BATCH = 500
# Rows that were archived but not deleted are among the oldest MAX_BATCH, except if rows with lower numbers were committed later.
_REMEMBERED = 2 * MAX_BATCH
_MAX_READ_BYTES = 16 * 1024


Batch = tuple[tuple[int, str, bytes], ...]
"""Rows of an outbox, oldest first: number, id, and record without a place in the stream."""


class Outbox:
    """The table of records that are not in the archive yet. SQLite and PostgreSQL; threads may share one.

        outbox = Outbox(EvidenceArchive("evidence", stream_id=uuid4().hex), metadata)
        with engine.begin() as db:
            db.execute(insert(payments), payment)
            outbox.add(db, make_record(verified, http_status=201, qwac_path=caller.qwac_path))
        outbox.drain(engine)

    Only the process that opened the archive drains it; use one archive for one table, and append to it through the outbox only.

    Args:
        archive: the archive, or in processes that only add records the path of its folder.
        metadata: the table is added to it.
        name: the table's name.
        count: called after each `drain` with `drained`, or with `failed` and the code of the error, and seconds, for metrics.

    Raises:
        ArchiveError: `archive.unusable`, `archive.damaged`.
        ConfigurationError: `callback.function`, `count` is a coroutine function.
    """

    def __init__(
        self, archive: EvidenceArchive | FilePath, metadata: MetaData, *, name: str = TABLE, count: Count | None = None
    ) -> None:
        require_run(awaited=False, count=count)
        self._count = count
        if isinstance(archive, EvidenceArchive):
            self._archive: EvidenceArchive | None = archive
            self._files = archive.files
            newest = [str(record.outbox_id) for record in archive.newest(_REMEMBERED)]
        else:
            self._archive, self._files, newest = None, KeptFiles(archive), []
        self._archived = deque(reversed(newest), maxlen=_REMEMBERED)  # ids, oldest first
        # The last records that this process added, by row id. They need no parsing, which takes as long as hashing.
        self._read = Cache[str, tuple[bytes, EvidenceRecord]](_REMEMBERED)
        self._archiving = Lock()
        self._adding: WeakSet[Any] = WeakSet()  # transactions that may still be rolled back
        number = BigInteger().with_variant(Integer, "sqlite")
        table = Table(
            name, metadata,
            Column("number", number, primary_key=True), Column("id", String(32), nullable=False),
            Column("record", LargeBinary, nullable=False), sqlite_autoincrement=True,
        )  # fmt: skip
        rows = table.c
        self._insert = Statement(insert(table).values(id=bindparam("new_id"), record=bindparam("unplaced")).inline())
        self._oldest = select(rows.number, rows.id, rows.record).order_by(rows.number).limit(bindparam("most"))
        one_row = (rows.number == bindparam("of_number"), rows.id == bindparam("of_id"))
        self._delete = Statement(delete(table).where(*one_row))

    def add(self, db: Connection, record: EvidenceRecord, *certificates: EidasCertificate) -> None:
        """Add a record in the caller's transaction, and write the files it names into the archive at once.

        Args:
            db: the connection.
            record: from `make_record`.
            certificates: further certificates that it names, if its `files` do not contain them.

        Raises:
            FormatError: the record could not be archived; `record.malformed`, `json.too-large`.
            ArchiveError: `archive.unusable`, a file cannot be written.
            ConfigurationError: `outbox.misused`, the connection commits each statement by itself (AUTOCOMMIT); or it is in a
                savepoint on SQLite and SQLAlchemy has sent no BEGIN, so that the outer transaction may not be rolled back.
            SQLAlchemyError: the database fails.
        """
        _require_transaction(db)
        row_id = secrets.token_hex(16)
        unplaced, read = record.unplaced(outbox_id=row_id)
        self._files.keep(record.files, certificates)
        self._insert.run_one(db, {"new_id": row_id, "unplaced": unplaced})
        if self._archive is not None and len(unplaced) <= _MAX_READ_BYTES:
            self._read.put(row_id, (unplaced, read))
        self._adding.add(db.get_transaction())

    def pending(self, db: Connection, *, limit: int = MAX_BATCH) -> Batch:
        """Return the oldest rows, at most 500.

        Args:
            db: a connection whose transaction has added no record, because uncommitted records must not be archived.
            limit: maximum number of rows; use fewer for large records, because a batch is held in memory.

        Raises:
            ConfigurationError: `outbox.misused`, records were added in this transaction.
            SQLAlchemyError: the database fails.
        """
        if db.get_transaction() in self._adding:
            raise ConfigurationError(
                "outbox.misused", "the outbox is read in a transaction that added records, before it is committed"
            )
        found = db.execute(self._oldest, {"most": max(1, min(limit, MAX_BATCH))}).all()
        if not found:  # drops what was rolled back; records of open transactions are parsed from their rows later
            self._read.clear()
        return tuple((number, row_id, bytes(raw)) for number, row_id, raw in found)

    def archive(self, batch: Batch) -> None:
        """Append the records of a batch that are not in the archive yet, and wait until they are on disk.

        Raises:
            ArchiveError: `archive.unusable`, `archive.locked`, `outbox.damaged`; the archive is unchanged.
            ConfigurationError: `outbox.misused`, this process has no archive.
        """
        if self._archive is None:
            raise ConfigurationError("outbox.misused", "an outbox with the path of an archive only adds records")
        with self._archiving:
            archived = set(self._archived)
            rows = [row for row in batch if row[1] not in archived]
            try:
                self._archive.append_many([self._record(*row) for row in rows], check=False)
            except FormatError as e:
                raise ArchiveError("archive.unusable", f"the records cannot be archived: {e.message}") from e
            self._archived.extend(row_id for _, row_id, _ in rows)

    def remove(self, db: Connection, batch: Batch) -> None:
        """Delete the rows of a batch that `archive` has appended, in the caller's transaction.

        Raises:
            SQLAlchemyError: the database fails.
        """
        if batch:
            self._delete.run_many(db, [{"of_number": number, "of_id": row_id} for number, row_id, _ in batch])

    def rotate(self, batch: Batch, *, limit: int = MAX_BATCH, now: datetime) -> None:
        """Close the part of the archive when its day is over. Call it after the commit of `remove`.

        It does nothing after a full batch: archived rows may be left, and their ids are looked up in the open part.

        Args:
            batch: the batch that was removed.
            limit: the maximum that `pending` was asked for.
            now: the present, aware.

        Raises:
            ArchiveError: `archive.unusable`, `archive.locked`.
        """
        if self._archive is not None and len(batch) < min(limit, MAX_BATCH):
            self._archive.rotate(now=now)

    def drain(self, engine: Engine, *, now: datetime | None = None) -> int:
        """Move all committed records to the archive, and close its part when the day is over.

        Call it at start, and then regularly from one thread.

        Args:
            engine: the database.
            now: the present, aware; None for the machine's clock.

        Returns:
            The number of deleted rows.

        Raises:
            ArchiveError: see `archive`; the rows that are not archived stay.
            SQLAlchemyError: the database fails; the next call removes what was archived.
        """
        begin = monotonic()
        try:
            total = self._drain(engine, now)
        except Exception as e:
            call_count(self._count, _LOG, "failed", code_of(e), monotonic() - begin)
            raise
        call_count(self._count, _LOG, "drained", "", monotonic() - begin)
        return total

    def _drain(self, engine: Engine, now: datetime | None) -> int:
        total = 0
        while True:
            with engine.connect() as db:
                batch = self.pending(db)
            if not batch:
                return total
            self.archive(batch)
            with engine.begin() as db:
                self.remove(db, batch)
            self.rotate(batch, now=now or utc_now())
            total += len(batch)

    def _record(self, number: int, row_id: str, raw: bytes) -> EvidenceRecord:
        known = self._read.pop(row_id)
        if known is not None and known[0] == raw:
            return known[1]
        try:
            return EvidenceRecord.from_unplaced(raw, outbox_id=row_id)
        except FormatError as e:
            raise ArchiveError("outbox.damaged", f"row {number} of the outbox is not a record: {e.message}") from e


def _require_transaction(db: Connection) -> None:
    """Check that a rollback of the caller will undo what is added.

    Raises:
        ConfigurationError: `outbox.misused`.
    """
    is_sqlite = db.dialect.name == "sqlite"
    # That of aiosqlite, too, has the attributes of sqlite3; asyncpg's has none, but SQLAlchemy's around it.
    driver: Any = db.connection.driver_connection if is_sqlite else db.connection.dbapi_connection
    if fault := transaction_fault(driver, is_sqlite=is_sqlite, db=db):
        raise ConfigurationError("outbox.misused", f"a record cannot be added: {fault}")
