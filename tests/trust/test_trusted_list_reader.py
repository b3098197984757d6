"""Trusted lists read into values, and mutated lists that never verify."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from list_builder import (
    WEB,
    Listed,
    ListFacts,
    State,
    criteria,
    pointer,
    policies,
    qualifications,
    sign,
    verified,
    write_list,
)

from refusals import refused
from tppkit.errors import FormatError, VerificationError
from tppkit.trust.trusted_list.model import TrustedList
from tppkit.trust.trusted_list.reader import MAX_FINDINGS, UnverifiedList
from tppkit.trust.trusted_list.uris import NATIONAL_LIST

SINCE = datetime(2020, 1, 1, tzinfo=UTC)
STATES = (State("withdrawn", datetime(2026, 4, 1, tzinfo=UTC)), State("granted", SINCE))


@pytest.fixture(scope="module")
def web_ca(certify):
    return certify("Web CA").certificate


@pytest.fixture(scope="module")
def text(web_ca, operator) -> str:
    return write_list(
        ListFacts(pointers=[pointer("ES", [operator.certificate])], providers={"Provider": [Listed(web_ca, STATES)]})
    )


@pytest.fixture(scope="module")
def read(operator):
    def read(text: str) -> TrustedList:
        return verified(sign(text, operator), operator)

    return read


def only_service(trusted_list: TrustedList):
    ((service,),) = [provider.services for provider in trusted_list.providers]
    return service


def test_the_frame_is_read(read, text, operator):
    found = read(text)
    assert (found.type, found.territory, found.sequence_number) == (NATIONAL_LIST, "PT", 7)
    assert (found.issued, found.next_update) == (datetime(2026, 5, 1, tzinfo=UTC), datetime(2026, 10, 31, tzinfo=UTC))
    assert found.operators == ("Scheme operator of PT",)
    assert found.signer == operator.certificate
    assert not found.is_list_of_lists
    assert found.findings == ()


@pytest.mark.parametrize("inside", ["</{0}><{0}>", "<?x y?>", "<b/>"])
@pytest.mark.parametrize("name", ["ServiceStatus", "SchemeTerritory"])
def test_a_text_that_readers_may_read_differently_is_malformed(read, text, name, inside):
    unclear = text.replace(f"</{name}>", f"{inside.format(name)}</{name}>")
    with refused(FormatError, "trusted-list.malformed"):
        read(unclear)


def test_pointers_are_read(read, text, operator):
    (found,) = read(text).pointers
    assert (found.territory, found.location, found.type) == ("ES", "https://lists.test.example/ES.xml", NATIONAL_LIST)
    assert found.signers == {operator.certificate.sha256}


def test_a_service_and_its_history_are_read(read, text, web_ca):
    service = only_service(read(text))
    assert [(state.status_name, state.since) for state in service.instances] == [
        ("withdrawn", STATES[0].since),
        ("granted", SINCE),
    ]
    assert service.current.identity.certificates == (web_ca,)
    past = service.instances[1].identity
    assert (past.certificates, past.has_subject, len(past.key_ids)) == ((), True, 1)
    assert service.current.information == (WEB,)


def test_the_state_in_force_is_the_latest_that_has_begun(read, text):
    service = only_service(read(text))
    assert service.at(datetime(2019, 1, 1, tzinfo=UTC)) is None
    assert service.at(SINCE).status_name == "granted"
    assert service.at(STATES[0].since).status_name == "withdrawn"


def test_history_is_put_in_order(read, web_ca):
    states = (STATES[0], State("accredited", datetime(2012, 1, 1, tzinfo=UTC)), State("granted", SINCE))
    service = only_service(read(write_list(ListFacts(providers={"Provider": [Listed(web_ca, states)]}))))
    assert [state.status_name for state in service.instances] == ["withdrawn", "granted", "accredited"]


def test_qualifications_are_read(read, web_ca):
    extension = qualifications(["NotQualified"], criteria(policies("1.2.3")))
    listed = Listed(web_ca, [State("granted", SINCE, extensions=extension)])
    (found,) = only_service(read(write_list(ListFacts(providers={"Provider": [listed]})))).current.qualifications
    assert found.qualifiers == ("NotQualified",)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("<X509Certificate>", "<X509Certificate>?"),
        ("<X509SKI>", "<X509SKI>?"),
        ("2020-01-01T00:00:00Z</StatusStartingTime>", "soon</StatusStartingTime>"),
        ("2026-04-01T00:00:00Z</StatusStartingTime>", "</StatusStartingTime>"),
    ],
)
def test_a_part_that_cannot_be_read_is_reported(read, text, old, new):
    assert old in text
    found = read(text.replace(old, new))
    assert {finding.code for finding in found.findings} == {"trusted-list.unreadable-part"}


def test_a_service_whose_present_state_cannot_be_read_is_none(read, text):
    """Its past alone would say that it is still granted."""
    found = read(text.replace("2026-04-01T00:00:00Z</StatusStartingTime>", "</StatusStartingTime>"))
    assert [provider.services for provider in found.providers] == [()]


def test_findings_are_bounded(read, web_ca):
    listed = [Listed(web_ca, [State("granted", SINCE)])] * (MAX_FINDINGS + 20)
    text = write_list(ListFacts(providers={"Provider": listed})).replace("<X509Certificate>", "<X509Certificate>?")
    assert len(read(text).findings) == MAX_FINDINGS


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("<TSLSequenceNumber>7<", "<TSLSequenceNumber>seven<"),
        ("<TSLSequenceNumber>7<", f"<TSLSequenceNumber>{'7' * 30}<"),
        ("<ListIssueDateTime>", "<ListIssueDateTime>x"),
        ("<dateTime>", "<dateTime>x"),
    ],
)
def test_a_frame_that_cannot_be_read_is_refused(read, text, old, new):
    assert old in text
    with refused(FormatError, "trusted-list.malformed"):
        read(text.replace(old, new))


@pytest.mark.parametrize("data", [b"<a/>", b'<TrustServiceStatusList xmlns="http://uri.etsi.org/02231/v2#"/>'])
def test_xml_that_is_not_a_list_is_refused(data):
    with refused(FormatError, "trusted-list.malformed"):
        UnverifiedList(data, source="the list")


@pytest.fixture(scope="module")
def signed(text, operator) -> bytes:
    return sign(text, operator)


@given(data=st.data())
def test_a_mutated_list_never_says_another_thing(signed, operator, data):
    """Only what canonical XML leaves out may change (white space in tags, for example): then it is the same list."""
    kind = data.draw(st.sampled_from(["flip", "cut", "insert", "swap"]))
    place = data.draw(st.integers(0, len(signed) - 1))
    match kind:
        case "flip":
            mutated = signed[:place] + bytes([signed[place] ^ data.draw(st.integers(1, 255))]) + signed[place + 1 :]
        case "cut":
            mutated = signed[:place] + signed[place + data.draw(st.integers(1, 200)) :]
        case "insert":
            mutated = signed[:place] + data.draw(st.binary(min_size=1, max_size=20)) + signed[place:]
        case _:
            other = data.draw(st.integers(0, len(signed) - 1))
            mutated = signed[:place] + signed[other : other + 50] + signed[place + 50 :]
    original = verified(signed, operator)
    with suppress(FormatError, VerificationError):
        assert replace(verified(mutated, operator), sha256=original.sha256) == original
