"""The store in memory: what it holds on to."""

from __future__ import annotations

from datetime import timedelta
from hashlib import sha256

from inboxes import AT, outcome, receiver

from tppkit.callbacks import Inbox, Outcome, Retention, VerifiedCallback
from tppkit.callbacks.stores import Order
from tppkit.callbacks.stores.memory import MemoryStore

SECOND = timedelta(seconds=1)


def test_versions_that_were_set_again_are_purged_once():
    store = MemoryStore()
    inbox = Inbox(receiver(), store)
    for number, at in enumerate((AT, AT, AT - SECOND)):  # one moment twice, and a clock that was set back
        inbox.handle(outcome(f"r{number}", ver=number), lambda *_: None, at=at)
    assert inbox.purge(at=AT + timedelta(days=500)) == 4


def test_an_older_version_waits_while_a_newer_one_is_handled():
    inbox, applied = Inbox(receiver(), MemoryStore()), []

    def nested(callback: VerifiedCallback, _: object) -> None:
        for again in (outcome("r4", ver=4), outcome("r5", ver=5)):
            assert inbox.handle(again, lambda *_: None, at=AT).outcome is Outcome.BUSY
        applied.append(callback.request_id)

    assert inbox.handle(outcome("r1", ver=5), nested, at=AT).outcome is Outcome.APPLIED
    for again in (outcome("r4", ver=4), outcome("r5", ver=5)):
        assert inbox.handle(again, nested, at=AT).outcome is Outcome.STALE
    assert applied == ["r1"]


def test_what_is_purged_leaves_nothing_behind():
    store = MemoryStore()
    Inbox(receiver(), store).accept(outcome("r1"), at=AT)
    (first,) = store.take(at=AT, until=AT, limit=1)
    retention = Retention(done=10 * SECOND, versions=10 * SECOND)
    for number in range(20_000):
        at, key = AT + number * SECOND, sha256(b"%d" % number).digest()
        entry = first.entry._replace(key=key, received_at=at, order=Order(key, 1))
        store.run(entry, lambda *_: None, at=at, until=at + SECOND, retry=lambda _: None)
        store.purge(retention.at(at), limit=100)
    held = (store._rows, store._versions, store._due, store._done, store._set)
    assert max(map(len, held)) < 1100
