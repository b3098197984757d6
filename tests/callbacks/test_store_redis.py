"""The store in Redis: what it leaves behind, and which clients it takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta

import pytest
import redis
from inboxes import AT, Case, login, new_prefix, outcome, receiver, redis_case

from tppkit.callbacks import Inbox, InboxSettings, Outcome, Retention, Retries, VerifiedCallback
from tppkit.callbacks.stores.redis import RedisStore
from tppkit.errors import ConfigurationError, InboxError

DAY = timedelta(days=1)


@pytest.fixture
def prefix() -> str:
    return f"{{{new_prefix('redis')}}}:"


@pytest.fixture
def case(redis_url: str, prefix: str) -> Iterator[Case]:
    with redis_case(redis_url, prefix) as case:
        yield case


def test_after_the_retention_not_a_key_is_left(redis_url: str, prefix: str, case: Case):
    inbox = Inbox(receiver(), case.store)
    for n in range(3):
        inbox.handle(outcome(f"r{n}", ver=n), case.handler, at=AT)
        inbox.accept(login(f"l{n}"), at=AT)
    inbox.work(case.handler, at=AT)
    assert inbox.purge(at=AT + 401 * DAY) == 7
    with redis.Redis.from_url(redis_url) as client:
        assert list(client.scan_iter(f"{prefix}*")) == [f"{prefix}effects".encode()]


def test_every_key_is_on_one_node_of_a_cluster(redis_url: str, case: Case, prefix: str):
    inbox = Inbox(receiver(), case.store)
    inbox.handle(outcome("r1"), case.handler, at=AT)
    with redis.Redis.from_url(redis_url) as client:
        assert len({redis.crc.key_slot(key) for key in client.scan_iter(f"{prefix}*")}) == 1


def test_an_older_version_waits_while_a_newer_one_is_handled(case: Case):
    inbox = Inbox(receiver(), case.store)

    def nested(callback: VerifiedCallback, connection: None) -> None:
        for again in (outcome("r4", ver=4), outcome("r5", ver=5)):
            assert inbox.handle(again, case.handler, at=AT).outcome is Outcome.BUSY
        case.handler(callback, connection)

    assert inbox.handle(outcome("r1", ver=5), nested, at=AT).outcome is Outcome.APPLIED
    for again in (outcome("r4", ver=4), outcome("r5", ver=5)):
        assert inbox.handle(again, case.handler, at=AT).outcome is Outcome.STALE
    assert case.effects() == ["t1 5"]


def test_a_callback_that_the_server_lost_stops_no_worker(redis_url: str, prefix: str, case: Case):
    inbox = Inbox(receiver(), case.store)
    inbox.accept(login("r1"), at=AT)
    with redis.Redis.from_url(redis_url) as client:
        client.delete(*client.scan_iter(f"{prefix}c:*"))
    inbox.accept(login("r2"), at=AT)
    assert [one.entry.request_id for one in inbox.work(case.handler, at=AT)] == ["r2"]


def test_a_damaged_callback_is_told(redis_url: str, prefix: str, case: Case):
    inbox = Inbox(receiver(), case.store)
    inbox.accept(login("r1"), at=AT)
    with redis.Redis.from_url(redis_url) as client:
        (key,) = client.scan_iter(f"{prefix}c:*")
        client.hdel(key, "url")
    with pytest.raises(InboxError, match="damaged"):
        inbox.work(case.handler, at=AT)


def test_a_handlers_error_is_raised_where_the_server_fails_as_well(redis_url: str, prefix: str):
    with redis.Redis.from_url(redis_url) as client:
        inbox = Inbox(receiver(), RedisStore(client, prefix=prefix))

        def breaks(callback: object, connection: object) -> None:
            (key,) = client.scan_iter(f"{prefix}c:*")
            client.set(key, b"no hash")
            raise LookupError

        with pytest.raises(LookupError):
            inbox.handle(login("r1"), breaks, at=AT)


def test_what_is_done_is_told_where_the_server_fails_behind_it(redis_url: str, prefix: str, case: Case):
    inbox = Inbox(receiver(), case.store)
    inbox.accept(login("r1"), at=AT)
    with redis.Redis.from_url(redis_url) as client:
        (key,) = client.scan_iter(f"{prefix}c:*")

        def breaks(callback: VerifiedCallback, connection: None) -> None:
            case.handler(callback, connection)
            client.set(key, b"no hash")

        answers = inbox.handle_all([login(f"r{n}") for n in range(3)], breaks, at=AT)
    assert [one.outcome for one in answers] == [Outcome.APPLIED, Outcome.BUSY, Outcome.BUSY]  # type: ignore[union-attr]
    assert case.effects() == ["r0 -"]


def test_nothing_of_url_and_body_stays_behind_when_it_is_done(redis_url: str, prefix: str, case: Case):
    inbox = Inbox(receiver(), case.store)
    inbox.handle(outcome("r1"), case.handler, at=AT)
    with redis.Redis.from_url(redis_url) as client:
        (key,) = client.scan_iter(f"{prefix}c:*")
        assert not {b"url", b"body", b"signature"} & client.hgetall(key).keys()


@contextmanager
def full(url: str) -> Iterator[None]:
    """A server that takes nothing more."""
    with redis.Redis.from_url(url) as client:
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", 1)
        try:
            yield
        finally:
            client.config_set("maxmemory", 0)


def test_what_failed_can_be_seen_and_put_away_where_the_server_is_full(redis_url: str, case: Case):
    settings = InboxSettings(retries=Retries(attempts=1), retention=Retention(failed=DAY))
    inbox = Inbox(receiver(), case.store, settings=settings)
    inbox.handle_all([login(f"r{n}") for n in range(5)], fails, at=AT)
    with full(redis_url):
        with pytest.raises(InboxError):
            inbox.accept(login("r9"), at=AT)
        first = inbox.failed(limit=3)
        second = inbox.failed(limit=3, after=first[-1])
        assert len({failure.entry.key for failure in (*first, *second)}) == 5
        assert inbox.discard(first[0], at=AT)
        assert len(inbox.failed()) == 4
        assert inbox.purge(at=AT + 2 * DAY) == 0
        assert inbox.failed() == []
        assert inbox.purge(at=AT + 10 * DAY) == 5


def test_a_server_that_is_full_uses_up_no_attempt(redis_url: str, prefix: str, case: Case):
    inbox = Inbox(receiver(), case.store, settings=InboxSettings(retries=Retries(attempts=1)))
    inbox.accept(login("lost"), at=AT)
    with redis.Redis.from_url(redis_url) as client:
        client.delete(*client.scan_iter(f"{prefix}c:*"))
    inbox.accept(login("r1"), at=AT + timedelta(seconds=1))
    with full(redis_url):
        for day in range(1, 4):
            with pytest.raises(InboxError) as caught:
                inbox.work(case.handler, at=AT + day * DAY)
            assert caught.value.code == "inbox.unavailable"
    (taken,) = case.store.take(at=AT + 4 * DAY, until=AT + 5 * DAY, limit=10)
    assert (taken.entry.request_id, taken.attempt, taken.lapsed) == ("r1", 1, False)


def fails(*_: object) -> None:
    raise LookupError


def inboxes(case: Case) -> tuple[Inbox, Inbox]:
    """One that tries again, and one that tries once."""
    retries = (Retries(), Retries(attempts=1))
    often, once = (Inbox(receiver(), case.store, settings=InboxSettings(retries=one)) for one in retries)
    return often, once


def discarded(case: Case, *, limit: int) -> int:
    return case.store.discard_failed(before=AT + DAY, at=AT + DAY, limit=limit)


def test_a_batch_of_a_purge_costs_the_same_however_many_are_tried_again(redis_url: str, case: Case):
    often, once = inboxes(case)
    once.handle_all([login(f"r{n}") for n in range(3)], fails, at=AT + timedelta(seconds=1))
    assert discarded(case, limit=1) == 1  # the server has the script now
    costs = []
    with redis.Redis.from_url(redis_url) as client:
        for tried_again in (0, 50):
            often.handle_all([login(f"t{n}") for n in range(tried_again)], fails, at=AT)
            client.config_resetstat()
            assert discarded(case, limit=1) == 1
            costs.append(sum(one["calls"] for one in client.info("commandstats").values()))
    assert len(often.failed()) == 50
    assert costs[0] == costs[1]


def test_a_purge_goes_on_behind_what_the_server_has_lost(redis_url: str, prefix: str, case: Case):
    _, once = inboxes(case)
    once.handle_all([login(f"r{n}") for n in range(3)], fails, at=AT)
    with redis.Redis.from_url(redis_url) as client:
        client.delete(*client.scan_iter(f"{prefix}c:*"))
    once.handle(login("r1"), case.handler, at=AT)  # sent again, and done
    with pytest.raises(LookupError):
        once.handle(login("r9"), fails, at=AT + timedelta(seconds=1))
    while discarded(case, limit=1):
        pass
    assert once.failed() == []
    with redis.Redis.from_url(redis_url) as client:
        assert not client.exists(f"{prefix}failed", f"{prefix}given-up")


def test_what_the_server_lost_and_was_sent_again_is_not_discarded(redis_url: str, prefix: str, case: Case):
    often, once = inboxes(case)
    once.handle_all([login("r1"), login("r2")], fails, at=AT)
    with redis.Redis.from_url(redis_url) as client:
        client.delete(*client.scan_iter(f"{prefix}c:*"))
    often.handle_all([login("r1")], fails, at=AT)
    often.accept(login("r2"), at=AT)
    while discarded(case, limit=10):
        pass
    assert [failure.entry.request_id for failure in often.failed()] == ["r1"]
    assert [one.outcome for one in often.work(case.handler, at=AT + DAY)] == [Outcome.APPLIED] * 2


def test_what_the_server_lost_and_was_sent_again_is_not_listed_as_failed(redis_url: str, prefix: str, case: Case):
    often, once = inboxes(case)
    once.handle_all([login("r1"), login("r2")], fails, at=AT)
    with redis.Redis.from_url(redis_url) as client:
        client.delete(*client.scan_iter(f"{prefix}c:*"))
    often.accept(login("r2"), at=AT)
    assert often.failed() == []


def test_what_is_tried_again_is_not_discarded_though_it_is_marked_as_given_up(redis_url: str, prefix: str, case: Case):
    """As a worker of a version that knew no such mark may leave it."""
    often, _ = inboxes(case)
    often.handle_all([login("r1")], fails, at=AT)
    with redis.Redis.from_url(redis_url) as client:
        client.zunionstore(f"{prefix}given-up", [f"{prefix}failed"])
    while discarded(case, limit=10):
        pass
    assert [failure.entry.request_id for failure in often.failed()] == ["r1"]


def test_what_was_released_is_not_discarded(case: Case):
    often, once = inboxes(case)
    with pytest.raises(LookupError):
        once.handle(login("r1"), fails, at=AT)
    assert often.release(once.failed()[0], at=AT)
    assert discarded(case, limit=10) == 0
    assert [one.outcome for one in often.work(fails, at=AT)] == [Outcome.FAILED]
    assert discarded(case, limit=10) == 0
    assert len(often.failed()) == 1


def test_an_effect_that_filled_the_server_is_marked_as_done(redis_url: str, case: Case):
    inbox = Inbox(receiver(), case.store)
    with ExitStack() as stack:

        def fills(callback: VerifiedCallback, connection: None) -> None:
            case.handler(callback, connection)
            stack.enter_context(full(redis_url))

        assert inbox.handle(login("r1"), fills, at=AT).outcome is Outcome.APPLIED
    assert inbox.handle(login("r1"), case.handler, at=AT).outcome is Outcome.REPEATED
    assert case.effects() == ["r1 -"]


def test_pages_go_on_behind_each_of_those_of_one_moment(case: Case):
    inbox = Inbox(receiver(), case.store)
    inbox.handle_all([login(f"r{n}") for n in range(9)], fails, at=AT)
    everything = inbox.failed()
    for n, failure in enumerate(everything):
        assert inbox.failed(after=failure) == everything[n + 1 :]
        assert inbox.discard(failure, at=AT)
        assert inbox.failed(after=failure) == everything[n + 1 :]


def test_a_client_that_decodes_is_refused(redis_url: str):
    with redis.Redis.from_url(redis_url, decode_responses=True) as client, pytest.raises(ConfigurationError) as caught:
        RedisStore(client)
    assert caught.value.code == "inbox.redis"


def test_a_server_that_is_not_there_is_told():
    with redis.Redis(port=1, retry=None) as client, pytest.raises(InboxError) as caught:
        Inbox(receiver(), RedisStore(client)).accept(login("r1"), at=AT)
    assert caught.value.code == "inbox.unavailable"


def test_scripts_that_the_server_forgot_are_sent_again(redis_url: str, case: Case):
    inbox = Inbox(receiver(), case.store)
    inbox.handle(login("r1"), case.handler, at=AT)
    with redis.Redis.from_url(redis_url) as client:
        client.script_flush()
    inbox.handle(login("r2"), case.handler, at=AT)
    assert case.effects() == ["r1 -", "r2 -"]
