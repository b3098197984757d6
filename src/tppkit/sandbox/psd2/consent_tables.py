"""The tables of consents and of their unattended reads, with their statements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Integer,
    LargeBinary,
    String,
    Table,
    bindparam,
    func,
    select,
    update,
)

from tppkit._clock import from_microseconds, to_microseconds
from tppkit.protocol.psd2 import ConsentRequest, ConsentStatus
from tppkit.protocol.psd2.consent import ConsentProgress, ConsentTrigger
from tppkit.sandbox.psd2.tables import TABLES
from tppkit.sql.statement import Statement, insert_or

_CONSENTS = Table(
    "consents", TABLES,
    Column("consent_id", String(64), primary_key=True),
    Column("organization", String(256), nullable=False),
    Column("provider_name", String(256)),
    Column("body", LargeBinary, nullable=False),
    Column("link_token", String(64), nullable=False, unique=True),
    Column("redirect_uri", String(2048)),
    Column("status", String(8), nullable=False),
    Column("active_at", BigInteger, nullable=False),
    Column("valid_until", String(10), nullable=False),
    Column("resource_id", String(64), nullable=False, unique=True),
    Column("iban", String(34)),
    Column("moved_by", String(16)),
)  # fmt: skip
_READS = Table(
    "consent_reads", TABLES,
    Column("consent_id", String(64), primary_key=True),
    Column("day", String(10), primary_key=True),
    Column("times", Integer, nullable=False),
)  # fmt: skip
_PAGES = Table(
    "consent_pages", TABLES,
    Column("consent_id", String(64), primary_key=True),
    Column("day", String(10), primary_key=True),
    Column("page", String(128), primary_key=True),
)  # fmt: skip

_ADD = insert_or(_CONSENTS, lambda into: into.on_conflict_do_nothing().returning(_CONSENTS.c.consent_id))
_BY_ID = Statement(select(_CONSENTS).where(_CONSENTS.c.consent_id == bindparam("of_consent")))
# The lock prevents concurrent decisions about one consent; SQLite has only one writer.
_LOCKED = select(_CONSENTS).where(_CONSENTS.c.consent_id == bindparam("of_consent")).with_for_update()
_BY_LINK = select(_CONSENTS).where(_CONSENTS.c.link_token == bindparam("of_link")).with_for_update()
_CHANGING = ("status", "active_at", "iban", "moved_by")
_SET = (
    update(_CONSENTS)
    .where(_CONSENTS.c.consent_id == bindparam("of_consent"))
    .values({name: bindparam(name) for name in _CHANGING})
)
_LATEST = select(func.max(_CONSENTS.c.active_at))
_IDS = select(_CONSENTS.c.consent_id)
_PAGE = select(_PAGES.c.page).where(*(column == bindparam(column.name) for column in _PAGES.c))
_ADD_PAGE = insert_or(_PAGES, lambda into: into.on_conflict_do_nothing().returning(_PAGES.c.page))
_LATEST_ONES = select(_CONSENTS).order_by(_CONSENTS.c.active_at.desc(), _CONSENTS.c.consent_id).limit(bindparam("most"))
# Returns no row if the limit of the day is reached.
_COUNT = insert_or(
    _READS,
    lambda into: (
        into.values(consent_id=bindparam("of_consent"), day=bindparam("of_day"), times=1)
        .on_conflict_do_update(
            index_elements=["consent_id", "day"],
            set_={"times": _READS.c.times + 1},
            where=_READS.c.times < bindparam("most", type_=Integer),
        )
        .returning(_READS.c.times)
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredConsent:
    """A consent.

    Attributes:
        consent_id: opaque id.
        organization: organizationIdentifier of the provider that created it.
        body: the request's body as received.
        link_token: the secret part of the approval link.
        redirect_uri: where the customer's browser returns, or None.
        progress: its state.
        resource_id: the id of its account in account-data calls, unique to this consent.
        iban: the account that the customer chose, or None.
        provider_name: name of the provider in its certificate, or None.
    """

    consent_id: str
    organization: str
    body: bytes
    link_token: str
    redirect_uri: str | None
    progress: ConsentProgress
    resource_id: str
    iban: str | None = None
    provider_name: str | None = None

    @property
    def request(self) -> ConsentRequest:
        """The request of the provider."""
        return _request(self.body)


def add_consent(db: Connection, consent: StoredConsent) -> bool:
    """Store a new consent; False if one of its ids is used already."""
    names = ("consent_id", "organization", "body", "link_token", "redirect_uri", "resource_id", "provider_name")
    values = {name: getattr(consent, name) for name in names} | _changing(consent)
    return _ADD.first(db, values | {"valid_until": consent.progress.valid_until.isoformat()}) is not None


def find_consent(db: Connection, consent_id: str) -> StoredConsent | None:
    """Return the consent with this id without a lock, or None."""
    return _read(_BY_ID.first(db, {"of_consent": consent_id}))


def lock_consent(db: Connection, consent_id: str) -> StoredConsent | None:
    """Return the consent with this id, locked for a change, or None."""
    return _read(db.execute(_LOCKED, {"of_consent": consent_id}).one_or_none())


def lock_consent_by_link(db: Connection, link_token: str) -> StoredConsent | None:
    """Return the consent with this approval link, locked for a change, or None."""
    return _read(db.execute(_BY_LINK, {"of_link": link_token}).one_or_none())


def set_consent(db: Connection, consent: StoredConsent) -> None:
    """Store the state of a consent, and its account."""
    db.execute(_SET, {"of_consent": consent.consent_id, **_changing(consent)})


def count_read(db: Connection, consent_id: str, day: date, *, most: int) -> bool:
    """Count an unattended read of a day; False, without counting, if there are already `most`."""
    return _COUNT.first(db, {"of_consent": consent_id, "of_day": day.isoformat(), "most": most}) is not None


def add_page(db: Connection, consent_id: str, day: date, page: str) -> None:
    """Store that a page of a day continues a counted read."""
    _ADD_PAGE.first(db, {"consent_id": consent_id, "day": day.isoformat(), "page": page})


def has_page(db: Connection, consent_id: str, day: date, page: str) -> bool:
    """Whether a page of a day continues a counted read."""
    return db.execute(_PAGE, {"consent_id": consent_id, "day": day.isoformat(), "page": page}).first() is not None


def latest_consent_time(db: Connection) -> datetime:
    """Return the latest virtual time at which a consent was used or decided."""
    return from_microseconds(db.execute(_LATEST).scalar_one() or 0)


def consent_ids(db: Connection) -> Iterator[str]:
    """Return the ids of all consents."""
    return iter(db.execute(_IDS).scalars())


def latest_consents(db: Connection, most: int) -> tuple[StoredConsent, ...]:
    """Return the consents that were used or decided last, newest first."""
    return tuple(consent for row in db.execute(_LATEST_ONES, {"most": most}) if (consent := _read(row)) is not None)


@lru_cache(maxsize=64)  # each read of account data needs it; the model is immutable
def _request(body: bytes) -> ConsentRequest:
    return ConsentRequest.from_wire(body, unknown_fields=True)


def _read(row: Any) -> StoredConsent | None:
    """Return the consent of a row with all columns of the table, in their order."""
    if row is None:
        return None
    consent_id, organization, provider_name, body, link_token, redirect_uri, *rest = row
    status, active_at, valid_until, resource_id, iban, moved_by = rest
    return StoredConsent(
        consent_id=consent_id, organization=organization, body=bytes(body), link_token=link_token, redirect_uri=redirect_uri,
        progress=ConsentProgress(
            ConsentStatus(status), from_microseconds(active_at), date.fromisoformat(valid_until),
            None if moved_by is None else ConsentTrigger(moved_by),
        ),
        resource_id=resource_id, iban=iban, provider_name=provider_name,
    )  # fmt: skip


def _changing(consent: StoredConsent) -> dict[str, Any]:
    progress = consent.progress
    return {
        "status": progress.status.value, "active_at": to_microseconds(progress.active_at), "iban": consent.iban,
        "moved_by": progress.moved_by and progress.moved_by.value,
    }  # fmt: skip
