"""SQLAlchemy sessions with unwritten objects as the transaction of the caller."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from inbox_cases import AT, apply, effects, entry, open_store
from sqlalchemy import MetaData
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from tppkit.errors import ConfigurationError
from tppkit.inbox import Outcome
from tppkit.inbox.store import InboxStore


class Base(DeclarativeBase):
    """The table of the application."""

    metadata = MetaData()


class Line(Base):
    """An effect whose text must be unique."""

    __tablename__ = "lines"
    text: Mapped[str] = mapped_column(primary_key=True)
    key: Mapped[str]


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> InboxStore:
    store = open_store(request.param, tmp_path, request)
    Base.metadata.drop_all(store.engine)
    Base.metadata.create_all(store.engine)
    return store


def lines(store: InboxStore) -> list[str]:
    with Session(store.engine) as session:
        return sorted(line.key for line in session.query(Line))


def add(one: Any, session: Session) -> None:
    session.add(Line(text="x", key=one.key))


def test_objects_that_a_handler_adds_are_committed_with_the_done_flag(store):
    for expected in (Outcome.APPLIED, Outcome.REPEATED):
        with Session(store.engine) as session, session.begin():
            assert store.handle_within(entry("a"), add, at=AT, within=session) is expected
    assert lines(store) == ["a"]


def test_unfinished_objects_of_the_caller_are_not_flushed(store):
    with Session(store.engine) as session:
        unfinished = Line(text="later")  # key is missing
        session.add(unfinished)
        assert store.handle_within(entry("a"), None, at=AT, within=session) is Outcome.APPLIED
        unfinished.key = "k"
        session.commit()
    assert lines(store) == ["k"]


def test_objects_that_only_the_commit_rejects_were_never_received(store):
    def deliver(key: str) -> Outcome:
        with Session(store.engine) as session, session.begin():
            return store.handle_within(entry(key), add, at=AT, within=session)

    assert deliver("a") is Outcome.APPLIED
    with pytest.raises(IntegrityError):
        deliver("b")
    assert lines(store) == ["a"]
    assert store.handle(entry("b"), apply, at=AT) is Outcome.APPLIED
    assert effects(store) == ["b"]


def hide(session: Any) -> None:
    session.add_all([Line(text="y", key="1"), Line(text="x", key="2")])
    with suppress(IntegrityError):
        session.flush()


ENDS: dict[str, Callable[[Any], object]] = {
    "commit": lambda session: session.commit(),
    "rollback": lambda session: session.rollback(),
    "close": lambda session: session.close(),
    "connection's rollback": lambda session: session.connection().rollback(),
    "hidden flush": hide,
}


@pytest.mark.filterwarnings("ignore:transaction already deassociated")  # SQLAlchemy finds it out too
@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize("end", ENDS)
def test_a_handler_that_ends_the_transaction_of_its_session_is_detected(store, end, raises):
    def ends(one: Any, session: Session) -> None:
        ENDS[end](session)
        if raises:
            raise LookupError

    with Session(store.engine) as session, session.begin():
        session.add(Line(text="x", key="before"))
    with Session(store.engine) as session:
        with pytest.raises(ConfigurationError) as caught:
            store.handle_within(entry("a"), ends, at=AT, within=session)
        session.rollback()
    assert caught.value.code == "inbox.handler-committed"
    expected = Outcome.REPEATED if end == "commit" else Outcome.APPLIED  # what it committed stays
    assert store.handle(entry("a"), apply, at=AT) is expected
    assert lines(store) == ["before"]
