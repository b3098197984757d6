"""`tppkit inbox`, as an operator uses it."""

from __future__ import annotations

import json
import signal
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from subprocess import PIPE, Popen

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from programs import TPPKIT
from tppkit._clock import utc_now
from tppkit.callbacks import (
    CallbackAddress,
    CallbackKey,
    CallbackKind,
    CallbackReceiver,
    CallbackRejected,
    Inbox,
    InboxSettings,
    sign_callback,
)
from tppkit.errors import TransportError
from tppkit.inbox import Entry, Retries, Version, Worker
from tppkit.inbox.store import InboxStore
from tppkit.message import Message  # fmt: skip

DATABASE = ("--database", "sqlite:///inbox.sqlite")
OLD = datetime(2020, 1, 1, tzinfo=UTC)
WORKERS = []
UNREADABLE = CallbackRejected("callback.unreadable", "the signed body is not of the address's kind")
HANDLER = """
def work(entry, db):
    if entry.content == b"bad":
        raise LookupError("a secret")
    print("handled", entry.name)

def count(outcome, code, seconds):
    print("counted", outcome, code)
    1 / (code != "LookupError")

def slow(entry, db):
    print("began", entry.name, flush=True)
    import time
    time.sleep(0.5)

def prepare(entry, at):
    from tppkit.errors import TransportError
    return entry._replace(fault=TransportError("order.not-final", "the order is fetched no longer"))

from tppkit.inbox import Worker
counted = Worker("callback:live", work, count=count)
give_up = Worker("callback:live", lambda entry, db: None, prepare=prepare)
not_a_function = 5
"""


@pytest.fixture
def store(tmp_path: Path) -> InboxStore:
    (tmp_path / "operators.py").write_text(HANDLER)
    (tmp_path / "broken.py").write_text("1 / 0")
    (tmp_path / "ends.py").write_text("raise SystemExit(0)")
    store = InboxStore(f"sqlite:///{tmp_path}/inbox.sqlite")
    store.create_tables()
    return store


def entry(key: str, *, source: str = "callback:live", content: bytes = b"good") -> Entry:
    return Entry(source, key, sha256(content).digest(), f"r-{key}", content, OLD, Version(key, 1))


def test_failed_entries_are_listed_released_and_worked(tppkit, store):
    assert tppkit("inbox", "failed", *DATABASE).exit_code == 0
    store.accept(entry("a")._replace(fault=UNREADABLE))
    store.accept(
        entry("b", source="webhook")._replace(fault=TransportError("order.not-final", "the order is fetched no longer"))
    )
    listed = tppkit("inbox", "failed", *DATABASE)
    assert listed.exit_code == 1
    assert listed.stdout.splitlines() == [
        "callback:live  a  r-a  1 attempt, CallbackRejected [callback.unreadable], not due",
        "webhook        b  r-b  1 attempt, TransportError [order.not-final], not due",
    ]
    (only,) = tppkit("inbox", "failed", *DATABASE, "--source", "webhook", "--json").json
    assert only == {
        "source": "webhook", "key": "b", "name": "r-b", "received_at": "2020-01-01T00:00:00Z", "attempts": 1,
        "reason": "TransportError [order.not-final]", "due_at": None,
    }  # fmt: skip
    mistyped = tppkit("inbox", "failed", *DATABASE, "--source", "webhooks")
    assert (mistyped.exit_code, mistyped.stdout) == (0, "")
    assert "the source webhooks; the sources are: callback:live, webhook" in mistyped.stderr
    assert tppkit("inbox", "release", *DATABASE, "a").stdout == "released  a\n"
    again = tppkit("inbox", "release", *DATABASE, "a", "b", "--json")
    assert (again.exit_code, again.json) == (1, {"released": ["b"], "not_failed": ["a"]})
    lost = tppkit("inbox", "work", *DATABASE, "--handler", "elsewhere:work")
    assert (lost.exit_code, "; the current folder is /" in lost.stderr) == (2, True)
    worked = tppkit("inbox", "work", *DATABASE, "--handler", "operators:work")
    assert (worked.exit_code, worked.stdout.splitlines()) == (
        0, [
            "handled r-a", "callback:live  a  r-a  applied", "handled r-b", "webhook  b  r-b  applied",
        ],
    )  # fmt: skip
    store.accept(entry("c"))
    worked = tppkit("inbox", "work", *DATABASE, "--handler", "operators:counted")
    assert worked.stdout.splitlines() == ["handled r-c", "counted applied ", "callback:live  c  r-c  applied"]


def test_a_discarded_entry_is_done_and_purged_later(tppkit, store):
    store.accept(entry("a")._replace(fault=UNREADABLE))
    assert tppkit("inbox", "discard", *DATABASE, "a", "--json").json == {"discarded": ["a"], "not_failed": []}
    refused = tppkit("inbox", "discard", *DATABASE, "a")
    assert (refused.exit_code, refused.stderr) == (1, "error: no failed entry has the key a\n")
    store.handle(entry("old"), lambda *_: None, at=OLD)
    assert tppkit("inbox", "purge", *DATABASE).stdout == "2 rows deleted\n"  # the entry and its version
    assert tppkit("inbox", "purge", *DATABASE, "--json").json == {"forgotten": 0}


def test_purge_keeps_rows_as_long_as_the_options_say(tppkit, store):
    store.handle(entry("old"), lambda *_: None, at=utc_now() - timedelta(days=10))
    purge = ("inbox", "purge", *DATABASE)
    assert tppkit(*purge, "--done", "30").stdout == "0 rows deleted\n"
    assert tppkit(*purge, "--done", "9", "--versions", "11").stdout == "1 row deleted\n"
    assert tppkit(*purge, "--done", "9", "--versions", "9").stdout == "1 row deleted\n"  # of a source without entries
    shorter = tppkit(*purge, "--done", "30", "--versions", "20")
    assert (shorter.exit_code, "shorter than for their entries" in shorter.stderr) == (2, True)


def test_a_handler_that_fails_gives_exit_1_and_no_message(tppkit, store):
    store.accept(entry("a", content=b"bad"))
    worked = tppkit("inbox", "work", *DATABASE, "--handler", "operators:counted", "--json")
    counted, _, shown = worked.stdout.partition("\n")
    assert (worked.exit_code, [one["outcome"] for one in json.loads(shown)]) == (1, ["failed"])
    assert (counted, worked.stderr) == ("counted failed LookupError", "error: count raised ZeroDivisionError\n")
    listed = tppkit("inbox", "failed", *DATABASE)
    assert "LookupError, due " in listed.stdout
    assert "secret" not in listed.stdout + worked.stdout + worked.stderr


def test_an_entry_that_is_stored_as_failed_after_its_handler_gives_exit_1(tppkit, store):
    store.accept(entry("a"))
    worked = tppkit("inbox", "work", *DATABASE, "--handler", "operators:give_up", "--json")
    assert (worked.exit_code, [(one["outcome"], one["code"]) for one in worked.json]) == (
        1, [("failed", "order.not-final")],
    )  # fmt: skip


@pytest.mark.parametrize(
    "arguments",
    [
        ("failed",), ("failed", "--database", "sqlite:///absent.sqlite"), ("failed", "--database", "mysql://x/y"),
        ("failed", "--database", "nonsense"), ("release", *DATABASE), ("work", *DATABASE),
        ("work", *DATABASE, "--handler", "operators"), ("work", *DATABASE, "--handler", "operators:absent"),
        ("work", *DATABASE, "--handler", "absent:work"), ("work", *DATABASE, "--handler", "operators:not_a_function"),
        ("work", *DATABASE, "--handler", "broken:work"),
        ("work", *DATABASE, "--handler", "ends:work"),
        ("work", *DATABASE, "--handler", "operators:work", "--interval", "nan"),
    ],
)  # fmt: skip
def test_wrong_usage_is_exit_2(tppkit, store, arguments):
    result = tppkit("inbox", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")


@pytest.mark.parametrize("tables", ["", "CREATE TABLE orders (id TEXT)"])
def test_a_file_without_an_inbox_is_exit_3_and_is_not_changed(tppkit, store, tmp_path, tables):
    file = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(file)) as db:
        db.execute(tables)
    before = file.read_bytes()
    for command in (("failed",), ("discard", "a"), ("purge",), ("work", "--handler", "operators:work")):
        result = tppkit("inbox", *command, "--database", "sqlite:///other.sqlite")
        assert (result.exit_code, "correct the address or the prefix" in result.stderr) == (3, True)
    assert (file.read_bytes(), list(tmp_path.glob("other*"))) == (before, [file])


def test_a_key_that_is_no_text_is_exit_3(tppkit, store):
    store.accept(entry("a"))
    result = tppkit("inbox", "discard", *DATABASE, "\udcff")
    assert (result.exit_code, "[inbox.unavailable]" in result.stderr) == (3, True)


def test_an_unreadable_callback_is_listed_released_and_fails_again_until_it_can_be_read(tppkit, store, tmp_path):
    key = ec.derive_private_key(4711, ec.SECP256R1())
    receiver = CallbackReceiver(
        [CallbackAddress("https://tpp.example/cb/", CallbackKind.ACCESS)], keys=[CallbackKey("live", key.public_key())]
    )
    inbox = Inbox(receiver, store, settings=InboxSettings(retries=Retries(first=timedelta(hours=1))))
    headers = sign_callback(key, request_id="r-1", method="POST", url="https://tpp.example/cb/", body=b'{"a":1}')
    inbox.accept(Message("POST", "/cb/", headers, b'{"a":1}'), at=OLD)
    (listed,) = tppkit("inbox", "failed", *DATABASE, "--json").json
    assert (listed["name"], listed["reason"]) == ("r-1", "CallbackRejected [callback.unreadable]")
    assert tppkit("inbox", "release", *DATABASE, listed["key"]).exit_code == 0
    store.accept(entry("a", source="webhook"))
    (tmp_path / "callbacks_worker.py").write_text("from test_cli_inbox import WORKERS\nwork = WORKERS.pop()\n")
    counted = []
    WORKERS.append(inbox.worker(print, count=lambda *given: counted.append(given[:2])))
    worked = tppkit("inbox", "work", *DATABASE, "--handler", "callbacks_worker:work", "--json")
    assert [(one["name"], one["outcome"]) for one in worked.json] == [
        ("r-1", "failed")
    ]  # and nothing of another source
    assert counted == [("failed", "callback.unreadable")]
    (failure,) = store.failed("callback:live")
    assert failure.due_at - datetime.now(UTC) > timedelta(minutes=50)  # as the inbox's own settings say


@pytest.mark.slow
@pytest.mark.parametrize("comes", [True, False])
def test_a_worker_waits_for_a_database_that_does_not_exist_yet(comes, tmp_path):
    (tmp_path / "late.py").write_text("def handle(entry, connection):\n    pass\n")
    command = [TPPKIT, "inbox", "work", "--database", "sqlite:///late.sqlite", "--handler", "late:handle", "--forever"]
    with Popen([*command, "--interval", "0.05"], cwd=tmp_path, stdout=PIPE, stderr=PIPE, text=True) as worker:
        assert worker.stderr.readline() == "waiting for late.sqlite, which the receiver makes\n"
        if comes:
            late = InboxStore(f"sqlite:///{tmp_path / 'late.sqlite'}")
            late.create_tables()
            late.accept(entry("a"))
            assert worker.stdout.readline() == "callback:live  a  r-a  applied\n"
            late.close()
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(timeout=20) == 0


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_waits_for_entries_outlives_its_database_and_ends_behind_the_entry_that_it_handles(
    store, tmp_path, number
):
    command = [
        TPPKIT,
        "inbox",
        "work",
        *DATABASE,
        "--handler",
        "operators:slow",
        "--forever",
        "--interval",
        "0.05",
        "--json",
    ]
    with Popen(command, cwd=tmp_path, stdout=PIPE, stderr=PIPE, text=True) as worker:
        store.accept(entry("a"))
        assert worker.stdout.readline() == "began r-a\n"
        assert json.loads(worker.stdout.readline()) == {
            "source": "callback:live", "key": "a", "name": "r-a", "outcome": "applied",
        }  # fmt: skip
        with closing(sqlite3.connect(tmp_path / "inbox.sqlite")) as db:
            db.execute("ALTER TABLE tppkit_inbox_entries RENAME TO away")
            assert "[inbox.unavailable]" in worker.stderr.readline()
            db.execute("ALTER TABLE away RENAME TO tppkit_inbox_entries")
        store.accept(entry("b"))
        store.accept(entry("c"))
        assert worker.stdout.readline() == "began r-b\n"
        worker.send_signal(number)
        rest, _ = worker.communicate(timeout=20)
    assert (worker.returncode, json.loads(rest)["name"]) == (0, "r-b")
    assert [one.entry.name for one in store.work(Worker("callback:live", lambda *_: None), at=datetime.now(UTC))] == [
        "r-c"
    ]
