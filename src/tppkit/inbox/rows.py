"""Entries as values of statements, and rows as entries."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from tppkit._clock import from_microseconds, to_microseconds
from tppkit.inbox.entry import Entry, Failure, Version
from tppkit.inbox.statements import ENTRY

WIDTH = len(ENTRY)


class Taken(NamedTuple):
    """A claimed entry.

    Attributes:
        entry: the entry.
        attempt: the number of the attempt, from 1; a later claim has another number.
    """

    entry: Entry
    attempt: int


def place(entry: Entry) -> dict[str, Any]:
    """Return what identifies an entry."""
    return {"of_source": entry.source, "of_key": entry.key}


def claim(taken: Taken) -> dict[str, Any]:
    """Return what identifies a claim of an entry."""
    return {**place(taken.entry), "attempt": taken.attempt}


def new_values(entry: Entry) -> dict[str, Any]:
    """Return what is written of an entry that is done at once."""
    return {
        "of_source": entry.source, "of_key": entry.key, "of_digest": entry.digest, "of_name": entry.name,
        "received": to_microseconds(entry.received_at),
    }  # fmt: skip


def all_values(entry: Entry) -> dict[str, Any]:
    """Return what is written of an entry that is kept."""
    record, number, digest = (None, None, None) if entry.version is None else entry.version
    version = {"of_record": record, "of_version": number, "of_version_digest": digest}
    return {**new_values(entry), **version, "of_content": entry.content}


def read_entry(row: Any) -> Entry:
    """Return the entry that a row begins with."""
    source, key, digest, name, content, received_at, record, number, said = row[:WIDTH]
    version = None if record is None else Version(record, number, None if said is None else bytes(said))
    return Entry(source, key, bytes(digest), name, bytes(content or b""), from_microseconds(received_at), version)


def read_failure(row: Any) -> Failure:
    """Return the entry of a row, and attempts, reason and due time behind it."""
    attempts, reason, due_at = row[WIDTH:]
    return Failure(read_entry(row), attempts, reason or "", None if due_at is None else from_microseconds(due_at))


def optional_microseconds(at: datetime | None) -> int | None:
    """Return a time as it is stored, or None."""
    return None if at is None else to_microseconds(at)
