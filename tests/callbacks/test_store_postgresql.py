"""The store in PostgreSQL: the caller's own transaction, connections of any kind, and what is said when it fails."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from datetime import timedelta
from functools import partial
from itertools import count
from typing import TypeVar

import psycopg
import pytest
from inboxes import AT, Case, login, new_prefix, open_case, outcome, postgresql_case, receiver
from psycopg.rows import dict_row

from tppkit.callbacks import Inbox, InboxSettings, Outcome, Retries, VerifiedCallback
from tppkit.callbacks.inbox import Handler
from tppkit.callbacks.stores.postgresql import PostgresqlStore
from tppkit.errors import ConfigurationError, InboxError

T = TypeVar("T")
MINUTE = timedelta(minutes=1)


@pytest.fixture
def case(postgresql_url: str) -> Case:
    return postgresql_case(postgresql_url, new_prefix("pg"))


@pytest.fixture
def inbox(case: Case) -> Inbox:
    return Inbox(receiver(), case.store)


def test_an_effect_in_the_callers_transaction_is_committed_and_rolled_back_with_it(
    postgresql_url: str, inbox: Inbox, case: Case
):
    with psycopg.connect(postgresql_url, row_factory=dict_row) as connection:
        assert inbox.once(outcome("r1"), at=AT, within=connection).outcome is Outcome.APPLIED
        case.write(connection, "undone")
        connection.rollback()
        assert inbox.once(outcome("r1"), at=AT, within=connection).outcome is Outcome.APPLIED
        case.write(connection, "kept")
        connection.commit()
        assert inbox.once(outcome("r1"), at=AT, within=connection).outcome is Outcome.REPEATED
        assert inbox.once(outcome("r2", ver=1), at=AT, within=connection).outcome is Outcome.STALE
    assert case.effects() == ["kept"]


@pytest.mark.parametrize(("end", "expected"), [("commit", Outcome.REPEATED), ("rollback", Outcome.APPLIED)])
def test_a_second_delivery_waits_for_the_first_callers_transaction(postgresql_url: str, end: str, expected: Outcome):
    prefix = new_prefix("pgwait")
    case = postgresql_case(postgresql_url, prefix)
    inbox = Inbox(receiver(), case.store)
    patient = "-c lock_timeout=60s"
    store = PostgresqlStore(lambda: psycopg.connect(postgresql_url, options=patient), prefix=prefix)
    with psycopg.connect(postgresql_url) as first, ThreadPoolExecutor(1) as thread:
        inbox.once(outcome("r1"), at=AT, within=first)
        begun = threading.Event()

        def second() -> Outcome:
            begun.set()
            return Inbox(receiver(), store).handle(outcome("r1"), case.handler, at=AT).outcome

        waiting = thread.submit(second)
        begun.wait()
        with pytest.raises(TimeoutError):
            waiting.result(timeout=0.3)
        getattr(first, end)()
        assert waiting.result(timeout=20) is expected


def test_the_cursors_that_a_connection_makes_otherwise_are_the_applications(postgresql_url: str):
    prefix = new_prefix("pg")
    case = postgresql_case(postgresql_url, prefix)
    store = PostgresqlStore(
        lambda: psycopg.connect(postgresql_url, cursor_factory=psycopg.RawCursor), prefix=prefix
    )  # its parameters are $1, $2
    insert = f"INSERT INTO {prefix}effects (line) VALUES ($1)"
    inbox = Inbox(receiver(), store)
    applied = inbox.handle(login("r1"), lambda callback, own: own.execute(insert, [callback.request_id]), at=AT)
    assert applied.outcome is Outcome.APPLIED
    assert case.effects() == ["r1"]


def test_a_handler_cannot_commit(inbox: Inbox, case: Case):
    def commits(callback: object, connection: psycopg.Connection) -> None:
        case.write(connection, "half")
        connection.commit()

    with pytest.raises(psycopg.ProgrammingError):
        inbox.handle(login("r1"), commits, at=AT)
    assert case.effects() == []


@pytest.mark.parametrize(
    ("statements", "code"),
    [
        (["SELECT 1 FROM nowhere"], "inbox.handler-aborted"),
        (["COMMIT"], "inbox.handler-committed"),
        (["ROLLBACK"], "inbox.handler-committed"),
        (["ROLLBACK", "BEGIN"], "inbox.handler-committed"),
    ],
)
@pytest.mark.parametrize("way", ["handle", "within"])
def test_what_a_handler_does_to_the_transaction_is_found_out(
    postgresql_url: str, inbox: Inbox, case: Case, statements: list[str], code: str, way: str
):
    def disturbs(callback: object, connection: psycopg.Connection) -> None:
        for statement in statements:
            with suppress(psycopg.Error):
                connection.execute(statement)

    within = partial(inbox.handle_within, within=lambda: psycopg.connect(postgresql_url))
    with pytest.raises(ConfigurationError) as caught:
        (inbox.handle if way == "handle" else within)(outcome("r1"), disturbs, at=AT)
    assert caught.value.code == code
    if statements != ["COMMIT"]:  # that has committed the mark as well
        assert inbox.handle(outcome("r1"), case.handler, at=AT).outcome is Outcome.APPLIED
        assert case.effects() == ["t1 1"]


def test_an_error_that_a_handler_hides_in_a_worker_spoils_no_other_callback(inbox: Inbox, case: Case):
    for n in range(3):
        inbox.accept(login(f"r{n}"), at=AT)

    def second_hides(callback: VerifiedCallback, connection: psycopg.Connection) -> None:
        case.handler(callback, connection)
        if callback.request_id == "r1":
            with suppress(psycopg.Error):
                connection.execute("SELECT 1/0")

    assert [one.outcome for one in inbox.work(second_hides, at=AT)] == [
        Outcome.APPLIED,
        Outcome.FAILED,
        Outcome.APPLIED,
    ]
    assert inbox.failed()[0].reason == "ConfigurationError [inbox.handler-aborted]"
    assert case.effects() == ["r0 -", "r2 -"]


def test_a_handlers_own_savepoint_may_fail(inbox: Inbox, case: Case):
    def tries(callback: VerifiedCallback, connection: psycopg.Connection) -> None:
        with suppress(psycopg.Error), connection.transaction():
            connection.execute("SELECT 1/0")
        case.handler(callback, connection)

    assert inbox.handle(outcome("r1"), tries, at=AT).outcome is Outcome.APPLIED
    assert case.effects() == ["t1 1"]


def test_a_connection_that_commits_each_statement_is_no_transaction(postgresql_url: str, inbox: Inbox):
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        with pytest.raises(ConfigurationError) as caught:
            inbox.once(outcome("r1"), at=AT, within=connection)
        assert caught.value.code == "inbox.no-transaction"
        with connection.transaction():
            assert inbox.once(outcome("r1"), at=AT, within=connection).outcome is Outcome.APPLIED


def test_a_store_is_refused_a_connection_with_a_transaction_that_it_could_not_commit(
    postgresql_url: str,
):
    prefix = new_prefix("pgopen")
    case = postgresql_case(postgresql_url, prefix)
    with psycopg.connect(postgresql_url) as shared:
        other = Inbox(receiver(), PostgresqlStore(lambda: nullcontext(shared), prefix=prefix))
        shared.execute("SELECT 1")
        for act in (other.handle, lambda *given, at: other.accept(given[0], at=at)):
            with pytest.raises(ConfigurationError) as caught:
                act(outcome("r1"), case.handler, at=AT)
            assert caught.value.code == "inbox.transaction-open"
        shared.rollback()
        assert other.handle(outcome("r1"), case.handler, at=AT).outcome is Outcome.APPLIED
        shared.rollback()
    assert Inbox(receiver(), case.store).handle(outcome("r1"), case.handler, at=AT).outcome is Outcome.REPEATED
    assert case.effects() == ["t1 1"]


def test_a_worker_claims_no_more_than_it_takes_whatever_the_servers_plan(postgresql_url: str):
    prefix = new_prefix("pgplan")
    case = postgresql_case(postgresql_url, prefix)
    for n in range(3):
        Inbox(receiver(), case.store).accept(login(f"r{n}"), at=AT)
    with psycopg.connect(postgresql_url) as connection:
        connection.execute(f"ANALYZE {prefix}callbacks")
    # So a planner that thinks little of the table runs a subquery for each of its rows.
    plain = (
        "-c enable_material=off -c enable_hashjoin=off -c enable_hashagg=off -c enable_mergejoin=off -c enable_sort=off"
    )
    store = PostgresqlStore(lambda: psycopg.connect(postgresql_url, options=plain), prefix=prefix)
    assert len(store.take(at=AT, until=AT + MINUTE, limit=1)) == 1
    assert len(store.take(at=AT, until=AT + MINUTE, limit=2)) == 2


def test_a_connection_that_is_lost_before_the_commit_leaves_nothing_acknowledged(
    postgresql_url: str, inbox: Inbox, case: Case
):
    def cut(callback: object, connection: psycopg.Connection) -> None:
        case.handler(callback, connection)  # type: ignore[arg-type]
        with psycopg.connect(postgresql_url, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s)", (connection.info.backend_pid,))

    with pytest.raises(InboxError) as caught:
        inbox.handle(outcome("r1"), cut, at=AT)
    assert caught.value.code == "inbox.unavailable"
    assert inbox.handle(outcome("r1"), case.handler, at=AT).outcome is Outcome.APPLIED
    assert case.effects() == ["t1 1"]


@pytest.fixture
def dangling(postgresql_url: str, case: Case) -> Handler:
    """A handler whose writes for the record `bad` break a constraint that is looked at by the commit alone."""
    table = new_prefix("deferred") + "t"
    with psycopg.connect(postgresql_url) as connection:
        connection.execute(
            f"CREATE TABLE {table} (id INT PRIMARY KEY, other INT REFERENCES {table} DEFERRABLE INITIALLY DEFERRED)"
        )

    def handler(callback: VerifiedCallback, connection: psycopg.Connection) -> None:
        case.handler(callback, connection)
        if callback.event.id == "bad":
            connection.execute(f"INSERT INTO {table} VALUES (1, 2)")

    return handler


def test_an_effect_that_only_the_commit_refuses_is_the_handlers_failure(inbox: Inbox, case: Case, dangling: Handler):
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        inbox.handle(outcome("r1", record="bad"), dangling, at=AT)
    (failure,) = inbox.failed()
    assert (failure.entry.request_id, failure.reason) == ("r1", "ForeignKeyViolation")
    assert case.effects() == []
    assert inbox.handle(outcome("r1", record="bad"), case.handler, at=AT).outcome is Outcome.APPLIED


def test_an_effect_that_only_the_commit_refuses_stops_no_other(inbox: Inbox, case: Case, dangling: Handler):
    calls = [outcome("r1", record="bad"), outcome("r2", record="good")]
    assert [one.outcome for one in inbox.handle_all(calls, dangling, at=AT)] == [Outcome.FAILED, Outcome.APPLIED]
    assert case.effects() == ["good 1"]
    assert [failure.entry.request_id for failure in inbox.failed()] == ["r1"]


def test_an_effect_that_only_the_commit_refuses_stops_no_worker(inbox: Inbox, case: Case, dangling: Handler):
    for call in (outcome("r1", record="t1"), outcome("r2", record="bad"), outcome("r3", record="t3")):
        inbox.accept(call, at=AT)
    worked = {one.entry.request_id: one.outcome for one in inbox.work(dangling, at=AT)}
    assert worked == {"r1": Outcome.APPLIED, "r2": Outcome.FAILED, "r3": Outcome.APPLIED}
    assert sorted(case.effects()) == ["t1 1", "t3 1"]


@pytest.mark.parametrize("way", ["handle_all", "work"])
def test_what_is_committed_is_told_though_the_store_fails_behind_it(postgresql_url: str, way: str):
    prefix, opened = new_prefix("partly"), count(1)
    case = postgresql_case(postgresql_url, prefix)
    calls = [outcome("r1", record="good"), outcome("r2", record="bad"), outcome("r3", record="other")]
    # One transaction for all, which fails at its commit; then r1's own. Before them a worker has one to claim.
    lasting = 2 if way == "handle_all" else 3

    def connect() -> psycopg.Connection:
        if next(opened) > lasting:
            raise psycopg.OperationalError("gone")
        return psycopg.connect(postgresql_url)

    with psycopg.connect(postgresql_url) as connection:
        connection.execute(
            f"CREATE TABLE {prefix}t (id INT PRIMARY KEY, other INT REFERENCES {prefix}t DEFERRABLE INITIALLY DEFERRED)"
        )

    def handler(callback: VerifiedCallback, connection: psycopg.Connection) -> None:
        case.handler(callback, connection)
        if callback.event.id == "bad":
            connection.execute(f"INSERT INTO {prefix}t VALUES (1, 2)")

    inbox = Inbox(receiver(), PostgresqlStore(connect, prefix=prefix))
    if way == "handle_all":
        told = [one.outcome for one in inbox.handle_all(calls, handler, at=AT)]
        assert told == [Outcome.APPLIED, Outcome.BUSY, Outcome.BUSY]
    else:
        for call in calls:
            Inbox(receiver(), case.store).accept(call, at=AT)
        assert [one.outcome for one in inbox.work(handler, at=AT)] == [Outcome.APPLIED]
    assert case.effects() == ["good 1"]


def test_rounds_that_are_done_are_told_though_a_later_one_fails(postgresql_url: str):
    prefix, later = new_prefix("rounds"), AT + MINUTE
    case, opened = postgresql_case(postgresql_url, prefix), count(1)

    def connect() -> psycopg.Connection:
        if next(opened) > 3:
            raise psycopg.OperationalError("gone")
        return psycopg.connect(postgresql_url)

    worker = Inbox(receiver(), PostgresqlStore(connect, prefix=prefix))
    for number in (1, 2):
        Inbox(receiver(), case.store).accept(outcome(f"r{number}", record=f"t{number}"), at=AT + number * MINUTE)
    case.store.take(at=AT + MINUTE, until=later, limit=1)  # by one who died: r1 is a round of its own
    told = worker.work(case.handler, at=later + 2 * MINUTE)
    assert [(one.entry.request_id, one.outcome) for one in told] == [("r1", Outcome.APPLIED)]
    assert case.effects() == ["t1 1"]
    with pytest.raises(InboxError):
        worker.work(case.handler, at=later + 2 * MINUTE)


def in_a_thread(call: Callable[[], T]) -> T:
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(call).result(60)


@pytest.mark.parametrize("held", ["r1", "r0"])
@pytest.mark.parametrize("way", ["accept", "handle"])
def test_a_delivery_does_not_wait_for_a_handler_that_hangs(inbox: Inbox, case: Case, way: str, held: str):
    told: list[str] = []

    def deliver() -> None:
        if way == "accept":
            inbox.accept(outcome("r1"), at=AT)
        else:
            inbox.handle(outcome("r1"), case.handler, at=AT)

    def hangs(callback: VerifiedCallback, connection: psycopg.Connection) -> None:
        assert connection.execute("SELECT current_setting('lock_timeout')").fetchone() == ("0",)
        try:
            in_a_thread(deliver)
            told.append("no lock met")
        except InboxError as e:
            told.append(e.message[-5:])

    assert inbox.handle(outcome(held), hangs, at=AT).outcome is Outcome.APPLIED
    # What is only stored needs its own row, and not its record's.
    assert told == ["no lock met" if (way, held) == ("accept", "r0") else "55P03"]


@pytest.mark.parametrize("attempts", [10, 1])  # the last may be the first: what is held was no attempt
@pytest.mark.parametrize("name", ["postgresql", "sqlalchemy-postgresql"])
def test_a_worker_leaves_what_a_handler_that_hangs_holds_and_goes_on(postgresql_url: str, name: str, attempts: int):
    settings = InboxSettings(retries=Retries(attempts=attempts))
    url = postgresql_url if name == "postgresql" else postgresql_url.replace("postgresql:", "postgresql+psycopg:")
    with open_case(name, url, new_prefix("pgheld")) as case:
        inbox, told = Inbox(receiver(), case.store, settings=settings), list[tuple[str, Outcome]]()
        for request_id, record, ver in (("r2", "t1", 2), ("r3", "t3", 1), ("r4", "t1", 3), ("r5", "t5", 1)):
            inbox.accept(outcome(request_id, record=record, ver=ver), at=AT)

        def work() -> None:
            told.extend((one.entry.request_id, one.outcome) for one in inbox.work(case.handler, at=AT))

        inbox.handle(outcome("r1", record="t1"), lambda *_: in_a_thread(work), at=AT)
        assert sorted(told) == [
            ("r2", Outcome.BUSY), ("r3", Outcome.APPLIED), ("r4", Outcome.BUSY), ("r5", Outcome.APPLIED),
        ]  # fmt: skip
        assert inbox.failed() == []
        assert case.store.take(at=AT, until=AT + MINUTE, limit=9) == []
        again = case.store.take(at=AT + MINUTE / 2, until=AT + MINUTE, limit=9)
        assert [(one.entry.request_id, one.attempt, one.lapsed) for one in again] == [
            ("r2", 1, False),
            ("r4", 1, False),
        ]
        assert sorted(case.effects()) == ["t3 1", "t5 1"]


def test_a_worker_does_not_wait_for_a_delivery_of_what_it_claimed(inbox: Inbox, case: Case):
    inbox.accept(outcome("r1"), at=AT)
    (taken,) = case.store.take(at=AT, until=AT + MINUTE, limit=1)
    told: list[Outcome] = []

    def late(*_: object) -> None:  # its lease ended, a delivery has it
        told.extend(case.store.resume([taken], lambda *_: None, at=AT + 2 * MINUTE, retry=lambda _: AT))

    inbox.handle(outcome("r1"), lambda *_: in_a_thread(late), at=AT + 2 * MINUTE)
    assert told == [Outcome.BUSY]


@pytest.mark.parametrize("limit", ["3s", "1s", "200ms", "1min"])
def test_a_limit_for_locks_that_the_caller_set_stays(postgresql_url: str, case: Case, inbox: Inbox, limit: str):
    seen: list[object] = []

    def look(callback: VerifiedCallback, connection: psycopg.Connection) -> None:
        seen.append(connection.execute("SHOW lock_timeout").fetchone())

    with psycopg.connect(postgresql_url, options=f"-c lock_timeout={limit}") as connection:
        inbox.handle_within(outcome("r1"), look, at=AT, within=lambda: nullcontext(connection))
        look(None, connection)  # type: ignore[arg-type]
    assert seen == [(limit,), (limit,)]


def test_a_handler_that_commits_and_raises_is_told_what_it_did(inbox: Inbox):
    def commits(callback: object, connection: psycopg.Connection) -> None:
        connection.execute("COMMIT")
        raise ValueError

    with pytest.raises(ConfigurationError) as caught:
        inbox.handle(outcome("r1"), commits, at=AT)
    assert caught.value.code == "inbox.handler-committed"
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize("within", [None, 5, sqlite3.connect(":memory:")])
def test_what_is_no_connection_of_the_stores_kind_is_refused(inbox: Inbox, within: object):
    with pytest.raises(ConfigurationError) as caught:
        inbox.once(outcome("r1"), at=AT, within=within)
    assert caught.value.code == "inbox.no-transaction"


def test_a_drivers_error_in_a_handler_is_the_handlers(inbox: Inbox):
    with pytest.raises(psycopg.errors.UndefinedTable):
        inbox.handle(login("r1"), lambda _, connection: connection.execute("SELECT 1 FROM nowhere"), at=AT)
    assert inbox.failed()[0].reason == "UndefinedTable"


def test_a_statement_that_fails_in_a_worker_spoils_no_other_callback(inbox: Inbox, case: Case):
    for n in range(3):
        inbox.accept(login(f"r{n}"), at=AT)

    def second_fails(callback: object, connection: psycopg.Connection) -> None:
        case.handler(callback, connection)  # type: ignore[arg-type]
        if "r1" in str(callback):
            connection.execute("SELECT 1/0")

    inbox.work(second_fails, at=AT)
    assert sorted(case.effects()) == ["r0 -", "r2 -"]
    assert inbox.failed()[0].reason == "DivisionByZero"


def test_a_server_that_is_not_there_is_told_without_its_address():
    def connect() -> psycopg.Connection:
        return psycopg.connect("postgresql://user:secret@127.0.0.1:1/none", connect_timeout=2)

    with pytest.raises(InboxError) as caught:
        Inbox(receiver(), PostgresqlStore(connect)).accept(login("r1"), at=AT)
    assert caught.value.code == "inbox.unavailable"
    assert "secret" not in str(caught.value)


def test_the_tables_can_be_created_by_several_at_once(postgresql_url: str):
    prefix = new_prefix("pgmany")
    stores = [PostgresqlStore(lambda: psycopg.connect(postgresql_url), prefix=prefix) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(PostgresqlStore.create_tables, stores))
    assert Inbox(receiver(), stores[0]).accept(login("r1"), at=AT).outcome is Outcome.STORED


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [("postgresql", "psycopg", "postgres"), ("sqlalchemy", "sqlalchemy", "sqlalchemy"), ("redis", "redis", "redis")],
)
def test_an_absent_driver_names_the_extra_to_install(module: str, package: str, extra: str):
    code = f"import sys; sys.modules['{package}'] = None; import tppkit.callbacks.stores.{module}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert f"pip install 'tppkit[{extra}]' [extra.missing]" in done.stderr


def test_an_inbox_needs_no_driver_to_be_imported():
    code = (
        "import sys; import tppkit.callbacks, tppkit.callbacks.stores;"
        " print({'psycopg', 'sqlalchemy', 'redis', 'sqlite3'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("set()\n", "")
