"""The table of stored cards, with its statements."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    LargeBinary,
    String,
    Table,
    bindparam,
    delete,
    insert,
    select,
    update,
)

from tppkit.sandbox.gateway.cipher import CardCipher
from tppkit.sandbox.gateway.tables import TABLES, TRANSACTIONS

_CARDS = Table(
    "gateway_cards", TABLES,
    Column("vault_token", String(36), primary_key=True),
    Column("project_id", String(36), nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    Column("one_click_id", String(36)),
    Column("is_typed", Boolean, nullable=False),
)  # fmt: skip
_ADD_CARD = insert(_CARDS)
_ANY_CARD = select(_CARDS).limit(1)
_FIND_CARD = select(_CARDS).where(
    _CARDS.c.vault_token == bindparam("of_token"), _CARDS.c.project_id == bindparam("of_project")
)
_OF_TOKEN = _CARDS.c.vault_token == bindparam("of_token")
_SET_ONE_CLICK = update(_CARDS).where(_OF_TOKEN).values(one_click_id=bindparam("to_id"), is_typed=False)
_DROP_TYPED = delete(_CARDS).where(_OF_TOKEN, _CARDS.c.is_typed)
_AWAITED = select(TRANSACTIONS.c.vault_token).where(
    TRANSACTIONS.c.vault_token == _CARDS.c.vault_token,
    TRANSACTIONS.c.authorised.is_(None),
    TRANSACTIONS.c.due_at.is_not(None),
)
_LEFT_OVER = select(_CARDS.c.vault_token).where(_CARDS.c.is_typed, ~_AWAITED.exists())


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultRow:
    """A card in the vault.

    Attributes:
        vault_token: UUID.
        project_id: its project.
        sealed: number, expiry and name, encrypted.
        one_click_id: id of the accepted first one-click transaction that stored it, or None.
        is_typed: whether a customer typed it on a page; then it is stored only until the payment is decided.
    """

    vault_token: str = field(repr=False)
    project_id: str
    sealed: bytes = field(repr=False)
    one_click_id: str | None = None
    is_typed: bool = False


def require_vault_key(db: Connection, cipher: CardCipher) -> None:
    """Check that a stored card can be decrypted with this key.

    Raises:
        ConfigurationError: `vault.key`.
    """
    card = _card(db.execute(_ANY_CARD).first())
    if card is not None:
        cipher.decrypt(card.sealed, project_id=card.project_id, vault_token=card.vault_token)


def add_card(db: Connection, card: VaultRow) -> None:
    """Store a new card."""
    db.execute(_ADD_CARD, {name: getattr(card, name) for name in _CARDS.columns.keys()})  # noqa: SIM118


def find_card(db: Connection, vault_token: str, project_id: str) -> VaultRow | None:
    """Return the project's card with this token, or None."""
    return _card(db.execute(_FIND_CARD, {"of_token": vault_token, "of_project": project_id}).one_or_none())


def allow_one_click(db: Connection, vault_token: str, transaction_id: str) -> None:
    """Record that an accepted first one-click transaction stored this card, which then stays."""
    db.execute(_SET_ONE_CLICK, {"of_token": vault_token, "to_id": transaction_id})


def drop_typed_card(db: Connection, vault_token: str) -> bool:
    """Delete a card that was stored only until its payment was decided; False if there is no such card."""
    return db.execute(_DROP_TYPED, {"of_token": vault_token}).rowcount > 0


def left_over_cards(db: Connection) -> tuple[str, ...]:
    """Return the tokens of typed cards that were not deleted when their payments were decided."""
    return tuple(db.execute(_LEFT_OVER).scalars())


def _card(row: Any) -> VaultRow | None:
    if row is None:
        return None
    return VaultRow(
        vault_token=row.vault_token, project_id=row.project_id, sealed=bytes(row.sealed), one_click_id=row.one_click_id,
        is_typed=bool(row.is_typed),
    )  # fmt: skip
