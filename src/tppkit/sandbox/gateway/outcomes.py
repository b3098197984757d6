"""Test cards and the outcomes of payments with them. docs/reference/test-cards.md shows this table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tppkit.protocol.gateway.card_data import CardSecret


@dataclass(frozen=True, slots=True)
class CardOutcome:
    """The decision of a card's issuer.

    Attributes:
        approved: whether it approves the payment, if `challenge` after the customer's authentication.
        response_code: code of ISO 8583 field 39, or of the networks if ISO has none.
        description: description of the response code.
        challenge: whether it requires 3-D Secure; if the customer fails it, the outcome is `AUTHENTICATION_FAILED`.
        ani_status: status of an account name inquiry, a code of `ANI_STATUS`.
        ani_match: match of an account name inquiry, a code of `ANI_MATCH`; None if it was not performed.

    Example:
        outcome = outcome_of(CardSecret("4000000000009995"))
        outcome.approved, outcome.response_code  # (False, "51")
    """

    approved: bool
    response_code: str
    description: str
    challenge: bool = False
    ani_status: str = "00"
    ani_match: str | None = "01"


# fmt: off
APPROVED = CardOutcome(True, "00", "approved")
AUTHENTICATION_FAILED = CardOutcome(False, "1A", "additional customer authentication required")  # Visa
CARD_EXPIRED = CardOutcome(False, "54", "expired card")

# Numbers: Stripe's public test cards with the same outcome; PayPal's and Braintree's if Stripe has no such card.
# Response codes: ISO 8583-1:1987 field 39; N7 is of Visa.
TEST_CARDS: Mapping[str, CardOutcome] = MappingProxyType({
    "4111111111111111": APPROVED,
    "5555555555554444": APPROVED,
    "2223003122003222": APPROVED,
    "378282246310005": APPROVED,
    "36227206271667": APPROVED,
    "3566002020360505": APPROVED,
    "6011111111111117": APPROVED,
    "6200000000000005": APPROVED,
    "6304000000000000": APPROVED,  # Braintree
    "4000000000000002": CardOutcome(False, "05", "do not honour"),
    "4000000000009987": CardOutcome(False, "41", "lost card"),
    "4000000000009979": CardOutcome(False, "43", "stolen card"),
    "4000000000009995": CardOutcome(False, "51", "insufficient funds"),
    "4000000000000069": CARD_EXPIRED,
    "4000000000006975": CardOutcome(False, "61", "exceeds withdrawal amount limit"),
    "4000000000000119": CardOutcome(False, "96", "system malfunction"),
    "4000000000000127": CardOutcome(False, "N7", "decline for CVV2 failure"),
    "4000002760003184": CardOutcome(True, "00", "approved", challenge=True),
    "4000008400001629": CardOutcome(False, "05", "do not honour", challenge=True),
    "4000008260003178": CardOutcome(False, "51", "insufficient funds", challenge=True),
    "4012888888881881": CardOutcome(True, "00", "approved", ani_match="50"),  # PayPal
    "4222222222222": CardOutcome(True, "00", "approved", ani_match="99"),  # PayPal
    "4009348888881881": CardOutcome(True, "00", "approved", ani_status="01", ani_match=None),  # Braintree
    "4005519200000004": CardOutcome(True, "00", "approved", ani_status="02", ani_match=None),  # Braintree
})
# fmt: on


def outcome_of(pan: CardSecret) -> CardOutcome:
    """Return the outcome of a payment with a card; approved for a number that is not in the table."""
    return TEST_CARDS.get(pan.get_secret_value(), APPROVED)
