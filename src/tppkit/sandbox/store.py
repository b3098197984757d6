"""What the sandbox remembers, in a SQL database: payments, request ids of the last hour, counts of kept answers, the virtual clock.

Each request has one transaction. On SQLite it takes the write lock at its start, so two requests never decide on the same state.
Transactions run one after another in a thread, so that a slow or locked database does not stop the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Engine,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    and_,
    create_engine,
    delete,
    event,
    func,
    insert,
    select,
    tuple_,
    update,
)  # fmt: skip
from sqlalchemy.exc import SQLAlchemyError

from tppkit._extras import missing_extra
from tppkit._files import make_private
from tppkit.errors import ConfigurationError, TransportError
from tppkit.protocol.psd2 import PaymentProduct, TransactionStatus
from tppkit.protocol.psd2.payment import Progress

MAX_REQUEST_ID = 36  # characters of a UUID

_METADATA = MetaData()
_PAYMENTS = Table(
    "payments", _METADATA,
    Column("payment_id", String(64), primary_key=True),
    Column("organization", String(256), nullable=False, index=True),
    Column("product", String(64), nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("link_token", String(64), nullable=False, unique=True),
    Column("redirect_uri", String(2048)),
    Column("status", String(4), nullable=False),
    Column("active_at", BigInteger, nullable=False),
    Column("opened", Boolean, nullable=False),
    Column("approved_at", BigInteger),
)  # fmt: skip
_REQUESTS = Table(
    "request_ids", _METADATA,
    Column("organization", String(256), primary_key=True),
    Column("request_id", String(36), primary_key=True),
    Column("fingerprint", String(64), nullable=False),
    Column("first_at", BigInteger, nullable=False, index=True),
    Column("http_status", Integer, nullable=False),
    Column("answer", LargeBinary, nullable=False),
    Column("payment_id", String(64), nullable=False),
)  # fmt: skip
# One row for each record of the archive. A table of its own, so that databases of earlier releases open.
_KEPT = Table(
    "kept_answers", _METADATA,
    Column("organization", String(256), primary_key=True),
    Column("request_id", String(MAX_REQUEST_ID), primary_key=True),
    Column("fingerprint", String(64), primary_key=True),
    Column("answer", String(64), primary_key=True),
    Column("times", Integer, nullable=False),
)  # fmt: skip
_CLOCK = Table(
    "clock", _METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("offset", BigInteger, nullable=False),
    Column("latest", BigInteger, nullable=False),
)  # fmt: skip

_T = TypeVar("_T")
_LOCK_WAIT_MS = 1000  # how long a transaction waits for another program's lock
_TIME_LIMIT_S = 5.0  # how long a request waits for its transaction
RETRY_AFTER_S = 1  # what a host advises when the store cannot answer
_FORGOTTEN_AT_ONCE = 100  # request ids; each request adds one, so a backlog still shrinks

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class StoredPayment:
    """A payment.

    Attributes:
        payment_id: opaque id.
        organization: organizationIdentifier of the provider that initiated it.
        product: the payment product.
        body: the initiation's body as received.
        link_token: the secret part of the approval link.
        redirect_uri: where the payer's browser returns, or None.
        progress: how far it is.
    """

    payment_id: str
    organization: str
    product: PaymentProduct
    body: bytes
    link_token: str
    redirect_uri: str | None
    progress: Progress


@dataclass(frozen=True, slots=True)
class UsedRequestId:
    """The first use of an X-Request-ID.

    Attributes:
        fingerprint: of the request (`protocol.psd2.rules.request_fingerprint`).
        first_at: when; aware UTC.
        http_status: what was answered.
        answer: the body that was answered.
        payment_id: the payment it made.
    """

    fingerprint: str
    first_at: datetime
    http_status: int
    answer: bytes
    payment_id: str


class Store:
    """The database.

    Args:
        url: a SQLAlchemy address, for example `sqlite:///sandbox.sqlite`.
        time_limit_s: seconds that a request waits for its transaction.

    Raises:
        ConfigurationError: `database.unusable`.
    """

    def __init__(self, url: str, *, time_limit_s: float = _TIME_LIMIT_S) -> None:
        self._time_limit_s = time_limit_s
        self._thread = ThreadPoolExecutor(1, "tppkit-store")
        try:
            self._engine = create_engine(url, hide_parameters=True)  # values hold bodies and link tokens: not for logs
            if self._engine.dialect.name == "sqlite":
                _make_private(self._engine.url.database)
                _prepare_sqlite(self._engine)
            elif self._engine.dialect.name == "postgresql":
                _prepare_postgresql(self._engine)
            self._thread.submit(self._make_tables).result()  # a database in memory belongs to one thread
        except ImportError as e:
            raise missing_extra("postgres", e) from e
        except (SQLAlchemyError, OSError) as e:
            raise ConfigurationError(
                "database.unusable", f"the sandbox's database cannot be opened: {type(e).__name__}"
            ) from e

    async def run(self, job: Callable[[Transaction], _T]) -> _T:
        """Run a job in a transaction of its own, in the store's thread, and return its result once it is committed.

        Raises:
            TransportError: `database.unavailable`; a job that reached the time limit while it ran may still be committed.
        """
        placed = self._thread.submit(self._run, job)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(placed), self._time_limit_s)
        except TimeoutError as e:
            message = f"the sandbox's database did not answer within {self._time_limit_s:g} s"
            raise TransportError("database.unavailable", message) from e

    def run_at_start(self, job: Callable[[Transaction], _T]) -> _T:
        """Run a job in a transaction, in the store's thread, and wait for it; not for use on an event loop.

        Raises:
            TransportError: `database.unavailable`.
        """
        return self._thread.submit(self._run, job).result()

    def _run(self, job: Callable[[Transaction], _T]) -> _T:
        with self.transaction() as tx:
            return job(tx)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """One transaction: committed at the end, undone when the body fails.

        Raises:
            TransportError: `database.unavailable`.
        """
        try:
            with self._engine.begin() as connection:
                yield Transaction(connection)
        except SQLAlchemyError as e:
            raise TransportError("database.unavailable", f"the sandbox's database fails: {type(e).__name__}") from e

    def _make_tables(self) -> None:
        _METADATA.create_all(self._engine)
        for index in _REQUESTS.indexes:
            index.create(self._engine, checkfirst=True)  # create_all adds none to a table that exists
        # A table of the same name that somebody else made would fail every request later.
        with self._engine.begin() as connection:
            for table in _METADATA.sorted_tables:
                connection.execute(select(table).limit(1))

    def close(self) -> None:
        """Close every connection, once the running transaction has ended."""
        self._thread.shutdown(cancel_futures=True)
        self._engine.dispose()


class Transaction:
    """Reads and writes of one request."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add_payment(self, payment: StoredPayment) -> None:
        """Store a new payment."""
        values = _progress_columns(payment.progress) | {
            "payment_id": payment.payment_id, "organization": payment.organization, "product": payment.product.value,
            "body": payment.body, "link_token": payment.link_token, "redirect_uri": payment.redirect_uri,
        }  # fmt: skip
        self._connection.execute(insert(_PAYMENTS).values(values))

    def payment(self, payment_id: str) -> StoredPayment | None:
        """The payment with this id."""
        return self._one(_PAYMENTS.c.payment_id == payment_id)

    def payment_by_link(self, link_token: str) -> StoredPayment | None:
        """The payment with this approval link."""
        return self._one(_PAYMENTS.c.link_token == link_token)

    def set_progress(self, payment_id: str, progress: Progress) -> None:
        """Store how far a payment is now."""
        self._connection.execute(
            update(_PAYMENTS).where(_PAYMENTS.c.payment_id == payment_id).values(_progress_columns(progress))
        )

    def used_request_id(self, organization: str, request_id: str) -> UsedRequestId | None:
        """The remembered first use of an X-Request-ID (compared without regard to case)."""
        row = self._connection.execute(
            select(_REQUESTS).where(
                _REQUESTS.c.organization == organization, _REQUESTS.c.request_id == request_id.lower()
            )
        ).one_or_none()
        return (
            None
            if row is None
            else UsedRequestId(row.fingerprint, _moment(row.first_at), row.http_status, row.answer, row.payment_id)
        )

    def remember_request_id(
        self, organization: str, request_id: str, used: UsedRequestId, *, forget_before: datetime
    ) -> None:
        """Remember a first use in place of an older one, and forget some of those that are older than the window."""
        columns = _REQUESTS.c
        key = tuple_(columns.organization, columns.request_id)
        old = select(*key.clauses).where(columns.first_at <= _microseconds(forget_before)).limit(_FORGOTTEN_AT_ONCE)
        self._connection.execute(delete(_REQUESTS).where(key.in_(old)))
        mine = (columns.organization == organization) & (columns.request_id == request_id.lower())
        self._connection.execute(delete(_REQUESTS).where(mine))
        self._connection.execute(
            insert(_REQUESTS).values(
                organization=organization,
                request_id=request_id.lower(),
                fingerprint=used.fingerprint,
                first_at=_microseconds(used.first_at),
                http_status=used.http_status,
                answer=used.answer,
                payment_id=used.payment_id,
            )
        )

    def count_answer(self, organization: str, request_id: str, *, fingerprint: str, answer: str) -> int:
        """Count an answer to a sealed request; return how often this request got it, this time included.

        Args:
            organization: organizationIdentifier of the provider.
            request_id: the X-Request-ID.
            fingerprint: of the request (`protocol.psd2.rules.request_fingerprint`).
            answer: the payment id, or the error code.
        """
        row = {
            "organization": organization, "request_id": request_id.lower(), "fingerprint": fingerprint, "answer": answer,
        }  # fmt: skip
        columns = _KEPT.c
        mine = and_(*(columns[name] == value for name, value in row.items()))
        if self._connection.execute(update(_KEPT).where(mine).values(times=columns.times + 1)).rowcount == 0:
            self._connection.execute(insert(_KEPT).values(**row, times=1))
        return int(self._connection.execute(select(columns.times).where(mine)).scalar_one())

    def clock(self) -> tuple[timedelta, datetime]:
        """The virtual clock's offset, and the latest virtual time that is stored."""
        row = self._connection.execute(select(_CLOCK)).one_or_none()
        stored = self._connection.execute(
            select(func.max(_PAYMENTS.c.active_at), func.max(_PAYMENTS.c.approved_at))
        ).one()
        offset, shown = (0, 0) if row is None else (row.offset, row.latest)
        return timedelta(microseconds=offset), _moment(max(shown, *(at or 0 for at in stored)))

    def set_clock(self, offset: timedelta, latest: datetime) -> None:
        """Store the virtual clock's offset and the time that it shows."""
        self._connection.execute(delete(_CLOCK))
        values = {"id": 1, "offset": offset // timedelta(microseconds=1), "latest": _microseconds(latest)}
        self._connection.execute(insert(_CLOCK).values(values))

    def _one(self, condition: Any) -> StoredPayment | None:
        row = self._connection.execute(select(_PAYMENTS).where(condition)).one_or_none()
        if row is None:
            return None
        approved = None if row.approved_at is None else _moment(row.approved_at)
        progress = Progress(TransactionStatus(row.status), _moment(row.active_at), row.opened, approved)
        return StoredPayment(
            row.payment_id,
            row.organization,
            PaymentProduct(row.product),
            row.body,
            row.link_token,
            row.redirect_uri,
            progress,
        )


def _make_private(file: str | None) -> None:
    # The database holds payments and live approval links; SQLite gives its side files the mode of the main one.
    if file and not file.startswith((":", "file:")):
        make_private(Path(file))


def _prepare_sqlite(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def connect(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # transactions are begun below, not by the driver
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(f"PRAGMA busy_timeout={_LOCK_WAIT_MS}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def _prepare_postgresql(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def connect(connection: Any, record: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = {_LOCK_WAIT_MS}")
        connection.commit()


def _progress_columns(progress: Progress) -> dict[str, Any]:
    return {
        "status": progress.status.value,
        "active_at": _microseconds(progress.active_at),
        "opened": progress.opened,
        "approved_at": None if progress.approved_at is None else _microseconds(progress.approved_at),
    }


def _microseconds(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1)


def _moment(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)
