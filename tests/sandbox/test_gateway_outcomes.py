"""The table of test cards: usable numbers, codes that the rules know, and a row in the guide for each."""

from __future__ import annotations

from pathlib import Path

import pytest

from tppkit.protocol.gateway import CardSecret
from tppkit.protocol.gateway.card_data import detect_brands, is_luhn_number
from tppkit.protocol.gateway.payments import ANI_MATCH, ANI_STATUS, ani_results
from tppkit.sandbox.gateway.outcomes import APPROVED, TEST_CARDS, CardOutcome, outcome_of

GUIDE = Path(__file__).parents[2] / "docs/reference/test-cards.md"


@pytest.mark.parametrize("number", ["4111111111111111", "4999999999999996"])
def test_the_card_of_the_examples_and_any_that_is_not_listed_are_approved(number):
    assert outcome_of(CardSecret(number)) == APPROVED


def test_a_listed_card_has_its_outcome():
    assert outcome_of(CardSecret("4000000000009995")) == CardOutcome(False, "51", "insufficient funds")


def test_every_number_has_a_check_digit_and_a_network():
    pans = [CardSecret(number) for number in TEST_CARDS]
    assert all(is_luhn_number(pan) and detect_brands(pan) for pan in pans)
    assert {detect_brands(pan)[0] for pan in pans} >= {"visa", "mastercard", "american-express", "maestro", "jcb"}


def test_name_inquiries_of_visa_cards_have_every_result_and_a_match_only_if_performed():
    visa = [outcome for number, outcome in TEST_CARDS.items() if detect_brands(CardSecret(number))[0] == "visa"]
    found = {ani_results(outcome.ani_status, outcome.ani_match) for outcome in visa}
    assert {result.status for result in found} == set(ANI_STATUS)
    assert {result.match for result in found} == {*ANI_MATCH, None}
    assert all((result.status == "00") == (result.match is not None) for result in found)


def row(number: str, outcome: CardOutcome) -> str:
    """A card as the guide shows it."""
    pan = CardSecret(number)
    then = "approved" if outcome.approved else f"declined: {outcome.description}"
    asked = "3-D Secure, then " if outcome.challenge else ""
    inquiry = ani_results(outcome.ani_status, outcome.ani_match)
    shown = (inquiry.match_description or inquiry.status_description) if detect_brands(pan)[0] == "visa" else "none"
    return f"| `{number}` | {detect_brands(pan)[0]} | {asked}{then} | `{outcome.response_code}` | {shown} |"


def test_the_guide_shows_every_card_and_no_other():
    section = GUIDE.read_text("utf-8").partition("## Test cards\n")[2].partition("\n## ")[0]
    assert [line for line in section.splitlines() if line.startswith("| `")] == [
        row(*one) for one in TEST_CARDS.items()
    ]
