"""`Cell`, an interface's part of the sandbox (handlers, tables, pages and control), and the services that all cells share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, NamedTuple, TypeVar

from sqlalchemy import Connection, MetaData
from starlette.routing import Route
from starlette.types import ASGIApp

from tppkit._clock import Clock
from tppkit.message import Header, Message
from tppkit.protocol.endpoint import Endpoint, Interface
from tppkit.sandbox.clock import Events
from tppkit.sandbox.control import Control
from tppkit.sandbox.database import Database
from tppkit.sandbox.deliveries import Sender
from tppkit.sandbox.evidence import Evidence
from tppkit.sandbox.reset import Gate
from tppkit.web.replay_stores.table import RequestTable

Q = TypeVar("Q")
A = TypeVar("A")

DEADLINE_S = 60.0  # to read a streamed answer


@dataclass(frozen=True, slots=True)
class Answer(Generic[A]):
    """The answer of a handler.

    Attributes:
        value: the body.
        subject: the id to store in the evidence record, for example the payment's.
        headers: further headers.
        facts: what the handler knows in addition to the body, for banks whose answers have more fields and headers: `self`, for
            example, is the path of what was made.
        before: for a handler that does not write: called in a write transaction before the answer is sent. If it raises, the error
            replaces the answer.
        due_at: when the next event of the changed object is due, or None.
        delivers: whether deliveries may have been added, so that their first attempts are made at once.
    """

    value: A
    subject: str | None = None
    headers: tuple[Header, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    before: Callable[[Connection], None] | None = None
    due_at: datetime | None = None
    delivers: bool = False


@dataclass(frozen=True, slots=True)
class HostCall(Generic[Q]):
    """One request, for its handler.

    Attributes:
        caller: id of the caller.
        at: the virtual time.
        parameters: the parameters of the path.
        query: the query parameters that the row names.
        message: the request as received.
        body: its parsed body.
        db: the transaction.
        settings: the settings of this bank for the interface.
        new_id: makes unguessable ids.
        caller_name: the name of the caller in its certificate, or None.
        interface: the interface of the host, whose rows may differ from those of the document.
    """

    caller: str
    at: datetime
    parameters: Mapping[str, str]
    query: Mapping[str, str]
    message: Message
    body: Q
    db: Connection
    settings: Any
    new_id: Callable[[], str]
    caller_name: str | None = None
    interface: Interface | None = None

    def target(self, row: Endpoint[Any, Any], query: Mapping[str, str] | None = None, /, **parameters: str) -> str:
        """The path and query of an endpoint of this host; arguments as of `Endpoint.target`."""
        return (row if self.interface is None else self.interface.named(row)).target(query, **parameters)


@dataclass(frozen=True, slots=True)
class Handler(Generic[Q, A]):
    """The function that answers a row.

    Attributes:
        row: the endpoint.
        answer: returns the answer, and writes through `call.db`. If it raises, its writes are rolled back.
        writes: if False, it runs on a snapshot; its answer can still write by `before`.
        long: it does not write and may take longer than a millisecond, so it runs in a thread.
    """

    row: Endpoint[Q, A]
    answer: Callable[[HostCall[Q]], Answer[A]]
    writes: bool = True
    long: bool = False


@dataclass(frozen=True, slots=True)
class StreamHandler(Generic[Q, A]):
    """The function that answers a row with a streamed answer. It runs on a snapshot, in a thread, without evidence.

    Attributes:
        row: the endpoint.
        rows: reads the rows through `call.db`, one after another; an error before the first row becomes a refusal.
        deadline_s: the connection to a client that has not read the whole answer after this time is closed.
    """

    row: Endpoint[Q, A]
    rows: Callable[[HostCall[Q]], Iterator[A]]
    deadline_s: float = DEADLINE_S


@dataclass(frozen=True, slots=True)
class Services:
    """The services that all hosts of one bank share.

    Attributes:
        database: runs transactions.
        requests: used request ids, one table for each window of a row.
        evidence: stores verified seals.
        now: the virtual clock.
        new_id: makes unguessable ids.
        events: runs due events before a request is answered or a customer acts.
        gate: entered while a request reads and writes the bank, because a reset must not come in between.
    """

    database: Database
    requests: Mapping[timedelta | None, RequestTable]
    evidence: Evidence
    now: Clock
    new_id: Callable[[], str]
    events: Events
    gate: Gate = field(default_factory=Gate)


class Section(NamedTuple):
    """A table of the index page.

    Attributes:
        title: its title.
        columns: the names of its columns.
        rows: its rows, with a text for each column.
    """

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


class Decision(NamedTuple):
    """What a customer can decide about an object of the interface, by calls of the control host.

    Attributes:
        kind: what it is, for people.
        hosts: the hosts that know it.
        parameter: the parameter of an endpoint's path with its id.
        path_parameter: the parameter of the calls' paths.
        approve: path and body of the call that approves.
        decline: path and body of the call that declines.
        created_by: the name of the row whose answer has its id; empty if its id is in the path.
        field: the field of that answer.
    """

    kind: str
    hosts: tuple[str, ...]
    parameter: str
    path_parameter: str
    approve: tuple[str, Any]
    decline: tuple[str, Any]
    created_by: str = ""
    field: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """An interface's part of the sandbox. The functions are called once, after the services were made.

    Attributes:
        interface: its endpoints and errors.
        tables: its tables.
        latest_time: reads the latest virtual time in its tables.
        hosts: makes the hosts, by the names of their listeners.
        pages: makes the pages for browsers.
        sections: reads what the index page shows of the interface.
        control: makes the routes of the control host.
        next_event: finds when the interface's next event is due, for example the execution of a payment.
        run_due: runs all events due at a time, in order, each at the time it was due.
        check: finds differences between the interface's tables and the ledger.
        subjects: the ids of objects that accepted seals created, which evidence names.
        senders: the senders of its deliveries, by names that no other interface has.
        decisions: what its customers decide; the first that fits a request is used.
    """

    interface: Interface
    tables: MetaData
    latest_time: Callable[[Connection], datetime]
    hosts: Callable[[Services], Mapping[str, ASGIApp]]
    pages: Callable[[Services], Sequence[Route]] = lambda services: ()
    sections: Callable[[Connection, datetime], Sequence[Section]] = lambda db, at: ()
    control: Callable[[Services], Sequence[Control]] = lambda services: ()
    next_event: Callable[[Connection], datetime | None] = lambda db: None
    run_due: Callable[[Connection, datetime], None] = lambda db, at: None
    check: Callable[[Connection], Sequence[str]] = lambda db: ()
    subjects: Callable[[Connection], Iterable[str]] = lambda db: ()
    senders: Mapping[str, Sender] = field(default_factory=dict)
    decisions: Sequence[Decision] = ()
