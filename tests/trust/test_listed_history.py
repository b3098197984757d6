"""What a list says of the past and twice: a state that cannot be read, and a key with two entries."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from list_builder import AT, QWAC, SEALS, Listed, State, verified_lists, when

from tppkit.errors import Severity

GRANTED, WITHDRAWN, AGAIN = (datetime(year, 1, 1, tzinfo=UTC) for year in (2018, 2020, 2022))
STATES = (State("granted", AGAIN), State("withdrawn", WITHDRAWN), State("granted", GRANTED))


@pytest.fixture(scope="module")
def web_ca(certify):
    return certify("Web CA", starts=GRANTED)


@pytest.fixture
def ask(operator, web_ca, certify):
    """The status, at its issuance, of a certificate of a service with some states of which one cannot be read."""

    def ask(issued: datetime, unreadable: datetime | None, states=STATES):
        leaf = certify("qwac", web_ca, **QWAC | {"starts": issued})

        def edit(text: str) -> str:
            return text if unreadable is None else text.replace(when(unreadable), "2020-13-01T00:00:00Z")

        return verified_lists(operator, Listed(web_ca.certificate, states), edit=edit).status(
            leaf.certificate, at=issued
        )

    return ask


def test_a_past_state_that_names_its_key_by_subject_only_does_not_apply(operator, web_ca, certify):
    """The authority may have had another key under the same name."""
    leaf = certify("qwac", web_ca, **QWAC | {"starts": GRANTED})

    def edit(text: str) -> str:
        return re.sub("<DigitalId><X509SKI>[^<]*</X509SKI></DigitalId>", "", text)

    for change, code in ((str, "trusted-list.not-granted"), (edit, "trusted-list.other-key")):
        lists = verified_lists(operator, Listed(web_ca.certificate, STATES), edit=change)
        assert lists.status(leaf.certificate, at=WITHDRAWN).code == code


@pytest.mark.parametrize(
    ("year", "unreadable", "code"),
    [
        (2021, None, "trusted-list.not-granted"),
        (2021, WITHDRAWN, "trusted-list.unreadable-history"),
        (2019, None, None),
        (2019, WITHDRAWN, "trusted-list.unreadable-history"),
        (2023, WITHDRAWN, None),
        (2021, GRANTED, "trusted-list.not-granted"),
        (2019, GRANTED, "trusted-list.unreadable-history"),
    ],
)
def test_before_the_state_after_an_unreadable_one_nothing_is_known(ask, year, unreadable, code):
    assert ask(datetime(year, 6, 1, tzinfo=UTC), unreadable).code == code


def test_a_history_out_of_order_with_an_unreadable_state_says_nothing_of_the_past(ask):
    current, withdrawn, granted = STATES
    shuffled = (current, granted, withdrawn)
    assert ask(datetime(2019, 6, 1, tzinfo=UTC), None, shuffled).code is None
    later = State("granted", WITHDRAWN + timedelta(days=400))
    found = ask(datetime(2021, 6, 1, tzinfo=UTC), WITHDRAWN, (current, granted, later, withdrawn))
    assert found.code == "trusted-list.unreadable-history"


def entries(web_ca, *entries: State) -> list[Listed]:
    return [Listed(web_ca.certificate, [state], name=f"Service {n}") for n, state in enumerate(entries)]


@pytest.mark.parametrize(
    ("other", "warned"),
    [
        (State("withdrawn", WITHDRAWN), True),
        (State("withdrawn", WITHDRAWN, (SEALS,)), False),
        (State("granted", WITHDRAWN), False),
    ],
)
def test_a_key_that_is_granted_and_withdrawn_for_one_purpose_gives_a_warning(operator, web_ca, certify, other, warned):
    leaf = certify("qwac", web_ca, **QWAC).certificate
    found = verified_lists(operator, *entries(web_ca, other, STATES[0])).status(leaf, at=AT)
    assert found.qualified_for == ("web",)
    expected = [("trusted-list.conflict", Severity.WARNING)] if warned else []
    assert [(finding.code, finding.severity) for finding in found.findings] == expected
