"""The table of stored cards, with its statements."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from sqlalchemy import Connection, String, bindparam, delete, select, update

from tppkit.sandbox.gateway.cipher import CardCipher
from tppkit.sandbox.gateway.tables import TABLES, TRANSACTIONS
from tppkit.sql.records import KEY, Records
from tppkit.sql.statement import Statement


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

    vault_token: Annotated[str, String(36), KEY] = field(repr=False)
    project_id: Annotated[str, String(36)]
    sealed: bytes = field(repr=False)
    one_click_id: Annotated[str | None, String(36)] = None
    is_typed: bool = False


CARDS = Records(VaultRow, "gateway_cards", TABLES)
_ANY_CARD = Statement(select(CARDS.table).limit(1))
_OF_TOKEN = CARDS.c.vault_token == bindparam("of_token")
_SET_ONE_CLICK = update(CARDS.table).where(_OF_TOKEN).values(one_click_id=bindparam("to_id"), is_typed=False)
_DROP_TYPED = delete(CARDS.table).where(_OF_TOKEN, CARDS.c.is_typed)
_AWAITED = select(TRANSACTIONS.c.vault_token).where(
    TRANSACTIONS.c.vault_token == CARDS.c.vault_token,
    TRANSACTIONS.c.authorised.is_(None),
    TRANSACTIONS.c.due_at.is_not(None),
)
_LEFT_OVER = select(CARDS.c.vault_token).where(CARDS.c.is_typed, ~_AWAITED.exists())


def require_vault_key(db: Connection, cipher: CardCipher) -> None:
    """Check that a stored card can be decrypted with this key.

    Raises:
        ConfigurationError: `vault.key`.
    """
    card = CARDS.first(db, _ANY_CARD, {})
    if card is not None:
        cipher.decrypt(card.sealed, project_id=card.project_id, vault_token=card.vault_token)


def allow_one_click(db: Connection, vault_token: str, transaction_id: str) -> None:
    """Record that an accepted first one-click transaction stored this card, which then stays."""
    db.execute(_SET_ONE_CLICK, {"of_token": vault_token, "to_id": transaction_id})


def drop_typed_card(db: Connection, vault_token: str) -> bool:
    """Delete a card that was stored only until its payment was decided; False if there is no such card."""
    return db.execute(_DROP_TYPED, {"of_token": vault_token}).rowcount > 0


def left_over_cards(db: Connection) -> tuple[str, ...]:
    """Return the tokens of typed cards that were not deleted when their payments were decided."""
    return tuple(db.execute(_LEFT_OVER).scalars())
