"""The store behind SQLAlchemy sessions: objects of the application, the caller's session, and other databases."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from inboxes import AT, login, new_prefix, outcome, receiver
from sqlalchemy import create_engine, create_mock_engine, event, select, text
from sqlalchemy.exc import IntegrityError, OperationalError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker

from tppkit.callbacks import AsyncInbox, Inbox, Outcome
from tppkit.callbacks.stores.sqlalchemy import AsyncSqlalchemyStore, SqlalchemyStore
from tppkit.errors import ConfigurationError, InboxError


class Base(DeclarativeBase):
    """The application's tables."""


class Payment(Base):
    """What the application keeps of a payment."""

    __tablename__ = "payments"
    record: Mapped[str] = mapped_column(primary_key=True)
    request_id: Mapped[str]


@pytest.fixture(params=["sqlite", "postgresql"])
def make_session(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[sessionmaker[Session]]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/inbox.sqlite"
    else:
        url = request.getfixturevalue("postgresql_url").replace("postgresql:", "postgresql+psycopg:")
    engine = create_engine(url, hide_parameters=True)
    Base.metadata.drop_all(engine)
    Base.metadata.create_all(engine)
    yield sessionmaker(engine)
    engine.dispose()


@pytest.fixture
def inbox(make_session: sessionmaker[Session]) -> Inbox:
    store = SqlalchemyStore(make_session, prefix=new_prefix("orm"))
    store.create_tables()
    return Inbox(receiver(), store)


def pay(callback: Any, session: Session) -> None:
    session.add(Payment(record=callback.event.id, request_id=callback.request_id))


def payments(make_session: sessionmaker[Session]) -> list[str]:
    with make_session() as session:
        return sorted(session.scalars(select(Payment.request_id)))


def test_objects_that_a_handler_adds_are_committed_with_the_done_mark(
    inbox: Inbox, make_session: sessionmaker[Session]
):
    for _ in range(2):
        inbox.handle(outcome("r1"), pay, at=AT)
    assert payments(make_session) == ["r1"]


def test_objects_that_cannot_be_written_are_the_handlers_failure(inbox: Inbox, make_session: sessionmaker[Session]):
    inbox.handle(outcome("r1", ver=1), pay, at=AT)
    with pytest.raises(IntegrityError):
        inbox.handle(outcome("r2", ver=2), pay, at=AT)
    assert [failure.reason for failure in inbox.failed()] == ["IntegrityError"]
    assert payments(make_session) == ["r1"]


def test_objects_of_a_handler_that_fails_in_a_worker_are_undone_alone(
    inbox: Inbox, make_session: sessionmaker[Session]
):
    for n, record in enumerate(("a", "b", "a", "c")):
        inbox.accept(outcome(f"r{n}", record=record, ver=n), at=AT)
    worked = inbox.work(pay, at=AT)
    assert sorted(one.outcome for one in worked) == ["applied", "applied", "applied", "failed"]
    assert len(payments(make_session)) == 3


def test_a_callback_in_the_callers_session_is_committed_and_rolled_back_with_it(
    inbox: Inbox, make_session: sessionmaker[Session]
):
    with make_session() as session:
        for end, expected in ((session.rollback, "applied"), (session.commit, "applied"), (session.commit, "repeated")):
            receipt = inbox.once(outcome("r1"), at=AT, within=session)
            assert receipt.outcome == expected
            if receipt.outcome is Outcome.APPLIED:
                pay(receipt.callback, session)
            end()
    assert payments(make_session) == ["r1"]


def test_what_the_caller_has_not_finished_is_not_flushed(inbox: Inbox, make_session: sessionmaker[Session]):
    with make_session() as session:
        unfinished = Payment(record="later")  # request_id is still missing
        session.add(unfinished)
        assert inbox.once(outcome("r1"), at=AT, within=session).outcome is Outcome.APPLIED
        unfinished.request_id = "r0"
        session.commit()
    assert payments(make_session) == ["r0"]


def test_a_callback_whose_handler_hides_an_error_of_the_database_is_not_lost(
    inbox: Inbox, make_session: sessionmaker[Session]
):
    def hides(callback: Any, session: Session) -> None:
        with suppress(SQLAlchemyError):
            session.execute(text("SELECT 1 FROM nowhere"))
        pay(callback, session)

    with suppress(SQLAlchemyError, ConfigurationError):  # SQLite's transaction bears it, PostgreSQL's does not
        inbox.handle(outcome("r1"), hides, at=AT)
    inbox.handle(outcome("r1"), pay, at=AT)
    assert payments(make_session) == ["r1"]


def test_all_that_are_handled_together_are_one_transaction(inbox: Inbox, make_session: sessionmaker[Session]):
    class Killed(BaseException):
        """The process ends."""

    def second_ends(callback: Any, session: Session) -> None:
        pay(callback, session)
        session.flush()
        if callback.request_id == "r2":
            raise Killed

    with pytest.raises(Killed):
        inbox.handle_all([outcome("r1"), outcome("r2", record="t2")], second_ends, at=AT)
    assert payments(make_session) == []
    inbox.handle_all([outcome("r1"), outcome("r2", record="t2")], pay, at=AT)
    assert payments(make_session) == ["r1", "r2"]


def test_a_handler_that_commits_is_found_out(inbox: Inbox):
    with pytest.raises(ConfigurationError) as caught:
        inbox.handle(login("r1"), lambda _, session: session.commit(), at=AT)
    assert caught.value.code == "inbox.handler-committed"


@pytest.mark.parametrize("where", ["engine", "session"])
def test_an_engine_that_commits_each_statement_is_refused_before_anything_is_written(
    make_session: sessionmaker[Session], where: str
):
    prefix = new_prefix("auto")
    SqlalchemyStore(make_session, prefix=prefix).create_tables()
    engine = make_session.kw["bind"]
    autocommit = engine.execution_options(isolation_level="AUTOCOMMIT")
    own = sessionmaker(autocommit if where == "engine" else engine)
    with own() as session:
        if where == "session":
            session.connection(execution_options={"isolation_level": "AUTOCOMMIT"})
        with pytest.raises(ConfigurationError) as caught:
            Inbox(receiver(), SqlalchemyStore(make_session, prefix=prefix)).once(outcome("r1"), at=AT, within=session)
        assert caught.value.code == "inbox.no-transaction"
    inbox = Inbox(receiver(), SqlalchemyStore(make_session, prefix=prefix))
    assert inbox.handle(outcome("r1"), pay, at=AT).outcome is Outcome.APPLIED
    assert payments(make_session) == ["r1"]


def test_a_store_over_an_engine_that_commits_each_statement_loses_no_effect(make_session: sessionmaker[Session]):
    engine = make_session.kw["bind"].execution_options(isolation_level="AUTOCOMMIT")
    store = SqlalchemyStore(sessionmaker(engine), prefix=new_prefix("auto"))
    store.create_tables()  # the store itself sees to a transaction
    inbox = Inbox(receiver(), store)
    with pytest.raises(LookupError):
        inbox.handle(outcome("r1"), pay_and_fail, at=AT)
    assert payments(make_session) == []
    assert inbox.handle(outcome("r1"), pay, at=AT).outcome is Outcome.APPLIED
    assert payments(make_session) == ["r1"]


def test_a_session_on_a_connection_that_commits_each_statement_is_refused(postgresql_url: str):
    engine = create_engine(postgresql_url.replace("postgresql:", "postgresql+psycopg:"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        store = SqlalchemyStore(sessionmaker(bind=connection), prefix=new_prefix("auto"))
        with pytest.raises(ConfigurationError) as caught:
            store.create_tables()
    engine.dispose()
    assert caught.value.code == "inbox.no-transaction"


def pay_and_fail(callback: Any, session: Session) -> None:
    pay(callback, session)
    session.flush()
    raise LookupError


def test_a_database_that_the_inbox_has_no_sql_for_is_refused():
    engine = create_mock_engine("mysql://", executor=None)
    with pytest.raises(ConfigurationError) as caught:
        SqlalchemyStore(lambda: Session(engine))  # type: ignore[arg-type]
    assert caught.value.code == "inbox.dialect"


def test_a_failing_database_is_told_without_what_was_written(make_session: sessionmaker[Session]):
    inbox = Inbox(receiver(), SqlalchemyStore(make_session, prefix=new_prefix("absent")))
    with pytest.raises(InboxError) as caught:
        inbox.accept(outcome("r1"), at=AT)
    assert caught.value.code == "inbox.unavailable"
    assert "LT121000011101001000" not in f"{caught.value}{caught.value.__cause__}"


@pytest.fixture
def dangling(make_session: sessionmaker[Session]) -> Any:
    """A handler whose writes for the record `bad` break a constraint that is looked at by the commit alone."""
    engine = make_session.kw["bind"]
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", lambda driver, _: driver.execute("PRAGMA foreign_keys = ON"))
        engine.dispose()
    table = new_prefix("deferred") + "t"
    with engine.begin() as connection:
        connection.execute(
            text(
                f"CREATE TABLE {table} (id INT PRIMARY KEY, other INT REFERENCES {table} DEFERRABLE INITIALLY DEFERRED)"
            )
        )

    def handler(callback: Any, session: Session) -> None:
        pay(callback, session)
        if callback.event.id == "bad":
            session.execute(text(f"INSERT INTO {table} VALUES (1, 2)"))

    return handler


def test_what_only_the_commit_refuses_is_the_handlers_failure(
    inbox: Inbox, make_session: sessionmaker[Session], dangling: Any
):
    with pytest.raises(IntegrityError):
        inbox.handle(outcome("r1", record="bad"), dangling, at=AT)
    assert [failure.reason for failure in inbox.failed()] == ["IntegrityError"]
    for number, record in enumerate(("t2", "bad", "t3")):
        inbox.accept(outcome(f"w{number}", record=record), at=AT)
    worked = {one.entry.request_id: one.outcome for one in inbox.work(dangling, at=AT)}
    assert worked == {"w0": Outcome.APPLIED, "w1": Outcome.FAILED, "w2": Outcome.APPLIED}
    assert len(payments(make_session)) == 2


def test_a_session_on_a_connection_with_a_transaction_is_refused(make_session: sessionmaker[Session], inbox: Inbox):
    with make_session.kw["bind"].connect() as connection:
        store = SqlalchemyStore(sessionmaker(bind=connection), prefix=new_prefix("bound"))
        store.create_tables()
        bound = Inbox(inbox.receiver, store)
        assert bound.accept(outcome("r1"), at=AT).outcome is Outcome.STORED
        connection.execute(text("SELECT 1"))
        with pytest.raises(ConfigurationError) as caught:
            bound.accept(outcome("r2"), at=AT)
    assert caught.value.code == "inbox.transaction-open"


def test_what_is_no_session_is_refused(inbox: Inbox):
    with pytest.raises(ConfigurationError) as caught:
        inbox.once(outcome("r1"), at=AT, within=None)
    assert caught.value.code == "inbox.no-transaction"


@pytest.mark.parametrize("within", ["handler", "nested"])
def test_a_handler_that_hides_a_flush_that_failed_is_told_so_and_spoils_no_other(
    inbox: Inbox, make_session: sessionmaker[Session], within: str
):
    inbox.handle(outcome("r0", record="taken"), pay, at=AT)

    def hides(callback: Any, session: Session) -> None:
        if callback.request_id == "r2":
            if within == "nested":
                session.begin_nested()
            session.add(Payment(record="taken", request_id="r2"))
            with suppress(IntegrityError):
                session.flush()
        else:
            pay(callback, session)

    with pytest.raises(ConfigurationError) as caught:
        inbox.handle(outcome("r2", record="t2"), hides, at=AT)
    assert caught.value.code == "inbox.handler-aborted"
    answers = inbox.handle_all([outcome(f"r{n}", record=f"t{n}") for n in (1, 2, 3)], hides, at=AT)
    assert [one.outcome for one in answers] == ["applied", "failed", "applied"]  # type: ignore[union-attr]
    assert [one.reason for one in inbox.failed()] == ["ConfigurationError [inbox.handler-aborted]"]
    assert payments(make_session) == ["r0", "r1", "r3"]


def test_a_savepoint_that_a_handler_leaves_open_is_kept(inbox: Inbox, make_session: sessionmaker[Session]):
    def leaves(callback: Any, session: Session) -> None:
        session.begin_nested()
        pay(callback, session)

    assert inbox.handle(outcome("r1"), leaves, at=AT).outcome is Outcome.APPLIED
    assert payments(make_session) == ["r1"]


ENDS: dict[str, Callable[[Any], object]] = {
    "commit": lambda session: session.connection().commit(),
    "rollback": lambda session: session.connection().rollback(),
    "savepoint's commit": lambda session: session.get_nested_transaction().commit(),
    "savepoint's rollback": lambda session: session.get_nested_transaction().rollback(),
    "connection's savepoint's commit": lambda session: session.connection().get_nested_transaction().commit(),
    "connection's savepoint's rollback": lambda session: session.connection().get_nested_transaction().rollback(),
}


@pytest.mark.filterwarnings("ignore:transaction already deassociated")  # SQLAlchemy tells it in its own way
@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize("end", ENDS)
def test_a_handler_that_ends_a_transaction_or_the_savepoint_around_it_is_found_out(
    inbox: Inbox, make_session: sessionmaker[Session], end: str, raises: bool
):
    def ends(callback: Any, session: Session) -> None:
        pay(callback, session)
        session.flush()
        if callback.request_id == "r2":
            ENDS[end](session)
            if raises:
                raise LookupError

    calls = [outcome(f"r{n}", record=f"t{n}") for n in range(1, 4)]
    with pytest.raises(ConfigurationError) as caught:
        inbox.handle_all(calls, ends, at=AT)
    assert caught.value.code == "inbox.handler-committed"
    told = [(one.entry.request_id, one.reason) for one in inbox.failed()]
    # What it committed stays, the done marks included.
    assert told == ([] if end == "commit" else [("r2", "ConfigurationError [inbox.handler-committed]")])
    answers = [one.outcome for one in inbox.handle_all(calls, pay, at=AT)]  # type: ignore[union-attr]
    assert answers[1] == ("repeated" if end == "commit" else "applied")
    assert payments(make_session) == ["r1", "r2", "r3"]


@pytest.mark.parametrize("end", ["commit", "rollback"])
@pytest.mark.parametrize("raises", [False, True])
def test_an_awaited_handler_that_ends_the_savepoint_around_it_is_found_out(postgresql_url: str, end: str, raises: bool):
    async def ends(callback: Any, session: AsyncSession) -> None:
        if callback.request_id == "r1":
            around = session.get_nested_transaction()
            assert around is not None
            await getattr(around, end)()
            if raises:
                raise LookupError

    async def scenario() -> None:
        engine = create_async_engine(postgresql_url.replace("postgresql:", "postgresql+psycopg:"))
        store = AsyncSqlalchemyStore(async_sessionmaker(engine), prefix=new_prefix("orm"))
        await store.create_tables()
        inbox = AsyncInbox(receiver(), store)
        with pytest.raises(ConfigurationError) as caught:
            await inbox.handle_all([login(f"r{number}") for number in range(3)], ends, at=AT)
        assert caught.value.code == "inbox.handler-committed"
        told = [(one.entry.request_id, one.reason) for one in await inbox.failed()]
        assert told == [("r1", "ConfigurationError [inbox.handler-committed]")]
        await engine.dispose()

    asyncio.run(scenario())


def test_a_connection_that_the_server_ends_is_no_fault_of_the_handler(postgresql_url: str):
    prefix, engine = new_prefix("orm"), create_engine(postgresql_url.replace("postgresql:", "postgresql+psycopg:"))
    store = SqlalchemyStore(sessionmaker(engine), prefix=prefix)
    store.create_tables()
    inbox = Inbox(receiver(), store)

    def cut(callback: Any, session: Session) -> None:
        own = session.scalar(text("SELECT pg_backend_pid()"))
        with engine.connect() as other:
            other.execute(text("SELECT pg_terminate_backend(:own)"), {"own": own})
        session.execute(text("SELECT 1"))

    with pytest.raises(OperationalError):
        inbox.handle(login("r1"), cut, at=AT)
    answers = inbox.handle_all([login("r2"), login("r3")], cut, at=AT + timedelta(seconds=1))
    assert [one.outcome for one in answers] == [Outcome.FAILED] * 2  # type: ignore[union-attr]  # each costs its own
    reasons = {one.entry.request_id: one.reason for one in inbox.failed()}
    assert reasons == {"r1": "OperationalError"} | dict.fromkeys(("r2", "r3"), "InboxError [inbox.unavailable]")
    engine.dispose()
