"""`tppkit inbox`, as an operator uses it."""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import pytest

from tppkit.inbox import Entry, Version
from tppkit.inbox.store import InboxStore

DATABASE = ("--database", "sqlite:///inbox.sqlite")
OLD = datetime(2020, 1, 1, tzinfo=UTC)
HANDLER = """
def work(entry, db):
    if entry.content == b"bad":
        raise LookupError("a secret")
    print("handled", entry.name)

not_a_function = 5
"""


@pytest.fixture
def store(tmp_path: Path) -> InboxStore:
    (tmp_path / "operators.py").write_text(HANDLER)
    store = InboxStore(f"sqlite:///{tmp_path}/inbox.sqlite")
    store.create_tables()
    return store


def entry(key: str, *, source: str = "callback:live", content: bytes = b"good") -> Entry:
    return Entry(source, key, sha256(content).digest(), f"r-{key}", content, OLD, Version(key, 1))


def test_failed_entries_are_listed_released_and_worked(tppkit, store):
    assert tppkit("inbox", "failed", *DATABASE).exit_code == 0
    store.accept(entry("a"), fault="CallbackRejected [callback.unreadable]")
    store.accept(entry("b", source="webhook"), fault="LookupError")
    listed = tppkit("inbox", "failed", *DATABASE)
    assert listed.exit_code == 1
    assert listed.stdout.splitlines() == [
        "callback:live  a  r-a  1 attempt, CallbackRejected [callback.unreadable], not due",
        "webhook  b  r-b  1 attempt, LookupError, not due",
    ]
    (only,) = tppkit("inbox", "failed", *DATABASE, "--source", "webhook", "--json").json
    assert only == {
        "source": "webhook", "key": "b", "name": "r-b", "received_at": "2020-01-01T00:00:00Z", "attempts": 1,
        "reason": "LookupError", "due_at": None,
    }  # fmt: skip
    assert tppkit("inbox", "release", *DATABASE, "a").stdout == "released  a\n"
    again = tppkit("inbox", "release", *DATABASE, "a", "b", "--json")
    assert (again.exit_code, again.json) == (1, {"released": ["b"], "not_failed": ["a"]})
    worked = tppkit("inbox", "work", *DATABASE, "--handler", "operators:work")
    assert (worked.exit_code, worked.stdout.splitlines()) == (
        0, ["handled r-a", "callback:live  a  r-a  applied", "handled r-b", "webhook  b  r-b  applied"],
    )  # fmt: skip


def test_a_discarded_entry_is_done_and_purged_later(tppkit, store):
    store.accept(entry("a"), fault="LookupError")
    assert tppkit("inbox", "discard", *DATABASE, "a", "--json").json == {"discarded": ["a"], "not_failed": []}
    refused = tppkit("inbox", "discard", *DATABASE, "a")
    assert (refused.exit_code, refused.stderr) == (1, "error: no failed entry has the key a\n")
    store.handle(entry("old"), lambda *_: None, at=OLD)
    assert tppkit("inbox", "purge", *DATABASE).stdout == "2 rows forgotten\n"  # the entry and its version
    assert tppkit("inbox", "purge", *DATABASE, "--json").json == {"forgotten": 0}


def test_a_handler_that_fails_gives_exit_1_and_no_message(tppkit, store):
    store.accept(entry("a", content=b"bad"))
    worked = tppkit("inbox", "work", *DATABASE, "--handler", "operators:work", "--json")
    assert (worked.exit_code, [one["outcome"] for one in worked.json]) == (1, ["failed"])
    listed = tppkit("inbox", "failed", *DATABASE)
    assert "LookupError, due " in listed.stdout
    assert "secret" not in listed.stdout + worked.stdout + worked.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("failed",), ("failed", "--database", "sqlite:///absent.sqlite"), ("failed", "--database", "mysql://x/y"),
        ("failed", "--database", "nonsense"), ("release", *DATABASE), ("work", *DATABASE),
        ("work", *DATABASE, "--handler", "operators"), ("work", *DATABASE, "--handler", "operators:absent"),
        ("work", *DATABASE, "--handler", "absent:work"), ("work", *DATABASE, "--handler", "operators:not_a_function"),
    ],
)  # fmt: skip
def test_wrong_usage_is_exit_2(tppkit, store, arguments):
    result = tppkit("inbox", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")


def test_a_database_without_an_inbox_is_exit_3(tppkit, store, tmp_path):
    (tmp_path / "other.sqlite").touch()
    result = tppkit("inbox", "failed", "--database", "sqlite:///other.sqlite")
    assert (result.exit_code, "[inbox.unavailable]" in result.stderr) == (3, True)
