"""Entries as rows of the SQL stores, and back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tppkit.callbacks.stores.entry import Entry, Failure, Order, microseconds, moment

Rows = Sequence[Sequence[Any]]
WIDTH = 13  # columns of an entry; what else a statement returns stands behind them


def row_values(entry: Entry) -> dict[str, Any]:
    """What a statement that stores an entry is given, by column."""
    subject, version, content = entry.order or (None, None, None)
    return {
        "key": entry.key, "digest": entry.digest, "environment": entry.environment, "key_name": entry.key_name,
        "request_id": entry.request_id, "method": entry.method, "url": entry.url, "body": entry.body, "signature": entry.signature,
        "received_at": microseconds(entry.received_at), "subject": subject, "version": version,
        "content": content, "reason": None,
    }  # fmt: skip


def read_entry(row: Sequence[Any]) -> Entry:
    """The entry that a row begins with."""
    key, digest, environment, key_name, request_id, method, url, body, signature, received_at, *ordered = row[:WIDTH]
    subject, version, content = ordered
    order = None if subject is None else Order(bytes(subject), version, octets(content))
    return Entry(
        bytes(key), bytes(digest), environment, key_name, request_id, method, url, bytes(body or b""), signature or "",
        moment(received_at), order,
    )  # fmt: skip


def read_failure(row: Sequence[Any]) -> Failure:
    """The entry, and behind it attempts, reason and due time."""
    attempts, reason, due_at = row[WIDTH:]
    return Failure(read_entry(row), attempts, reason or "", None if due_at is None else moment(due_at))


def octets(value: Any) -> bytes | None:
    """Bytes, whatever the driver gives."""
    return None if value is None else bytes(value)  # PostgreSQL's drivers may give a memoryview


def optional_microseconds(at: datetime | None) -> int | None:
    """A time as it is stored, or null."""
    return None if at is None else microseconds(at)
