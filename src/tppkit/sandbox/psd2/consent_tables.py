"""The tables of consents and of their unattended reads, with their statements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Annotated

from sqlalchemy import Column, Connection, Integer, String, Table, bindparam, select

from tppkit.protocol.psd2 import ConsentRequest
from tppkit.protocol.psd2.consent import ConsentProgress
from tppkit.sandbox.psd2.tables import TABLES
from tppkit.sandbox.queries import Newest
from tppkit.sql.records import KEY, UNIQUE, Fields, Records
from tppkit.sql.statement import Statement, insert_or


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

    consent_id: Annotated[str, String(64), KEY]
    organization: Annotated[str, String(256)]
    body: bytes
    link_token: Annotated[str, String(64), UNIQUE]
    redirect_uri: Annotated[str | None, String(2048)]
    progress: Annotated[ConsentProgress, Fields(status=String(8), moved_by=String(16))]
    resource_id: Annotated[str, String(64), UNIQUE]
    iban: Annotated[str | None, String(34)] = None
    provider_name: Annotated[str | None, String(256)] = None

    @property
    def request(self) -> ConsentRequest:
        """The request of the provider."""
        return _request(self.body)


CONSENTS = Records(StoredConsent, "consents", TABLES, changing=["progress", "iban"])
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
_BY_LINK = Statement(select(CONSENTS.table).where(CONSENTS.c.link_token == bindparam("of_link")).with_for_update())
_IDS = select(CONSENTS.c.consent_id)
_PAGE = select(_PAGES.c.page).where(*(column == bindparam(column.name) for column in _PAGES.c))
_ADD_PAGE = insert_or(_PAGES, lambda into: into.on_conflict_do_nothing().returning(_PAGES.c.page))
newest_consents = Newest(CONSENTS, CONSENTS.c.active_at)
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


def lock_consent_by_link(db: Connection, link_token: str) -> StoredConsent | None:
    """Return the consent with this approval link, locked for a change, or None."""
    return CONSENTS.first(db, _BY_LINK, {"of_link": link_token})


def count_read(db: Connection, consent_id: str, day: date, *, most: int) -> bool:
    """Count an unattended read of a day; False, without counting, if there are already `most`."""
    return _COUNT.first(db, {"of_consent": consent_id, "of_day": day.isoformat(), "most": most}) is not None


def add_page(db: Connection, consent_id: str, day: date, page: str) -> None:
    """Store that a page of a day continues a counted read."""
    _ADD_PAGE.first(db, {"consent_id": consent_id, "day": day.isoformat(), "page": page})


def has_page(db: Connection, consent_id: str, day: date, page: str) -> bool:
    """Whether a page of a day continues a counted read."""
    return db.execute(_PAGE, {"consent_id": consent_id, "day": day.isoformat(), "page": page}).first() is not None


def consent_ids(db: Connection) -> Iterator[str]:
    """Return the ids of all consents."""
    return iter(db.execute(_IDS).scalars())


@lru_cache(maxsize=64)  # each read of account data needs it; the model is immutable
def _request(body: bytes) -> ConsentRequest:
    return ConsentRequest.from_wire(body, unknown_fields=True)
