"""No byte that was signed can change, and no message whatever makes the verifier fail otherwise than by a refusal."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cryptography import x509
from cryptography.utils import CryptographyDeprecationWarning
from hypothesis import given
from hypothesis import strategies as st
from sealing import COVERED, REQUEST, TEMPLATE, changed, fresh_policy, header, seal_by_hand, verdict, with_value

from tppkit._encoding import decode_base64, encode_base64
from tppkit.httpsig import Message
from tppkit.seals import Seal, SealPolicy, sign_request
from tppkit.testpki import Pki

MASKS = (0x01, 0x02, 0x20, 0x80)
# A mutated certificate may have a negative serial number, of which `cryptography` warns.
pytestmark = pytest.mark.filterwarnings(
    f"ignore::{CryptographyDeprecationWarning.__module__}.CryptographyDeprecationWarning"
)


@pytest.fixture(scope="module")
def sealed(seal: Seal) -> Message:
    return sign_request(REQUEST, seal=seal)


@pytest.fixture(scope="module")
def warmed(pki: Pki, sealed: Message) -> SealPolicy:
    policy = fresh_policy(pki)
    assert verdict(sealed, policy) == "holds"
    return policy


def flips(text: str) -> Iterator[str]:
    """The text with one character changed, every one in turn."""
    for position, character in enumerate(text):
        for mask in MASKS:
            yield text[:position] + chr(ord(character) ^ mask) + text[position + 1 :]


@pytest.mark.parametrize("name", ["Digest", "X-Request-ID"])
def test_no_character_of_a_covered_header_can_change(name: str, sealed: Message, warmed: SealPolicy) -> None:
    forged = [with_value(sealed, name, value) for value in flips(header(sealed, name))]
    assert [message for message in forged if verdict(message, warmed) == "holds"] == []


def test_no_character_of_a_further_covered_header_can_change(pki: Pki) -> None:
    sealed, policy = seal_by_hand(REQUEST, pki.qseal, covered=(*COVERED, "psu-ip-address")), fresh_policy(pki)
    assert verdict(sealed, policy) == "holds"
    forged = [with_value(sealed, "PSU-IP-Address", value) for value in flips("192.0.2.7")]
    assert [message for message in forged if verdict(message, policy) == "holds"] == []


def test_no_character_of_the_method_can_change(sealed: Message, warmed: SealPolicy) -> None:
    forged = [changed(sealed, method=method) for method in flips(sealed.method)]
    assert [message for message in forged if verdict(message, warmed) == "holds"] == []


def test_no_character_of_the_target_can_change(sealed: Message, warmed: SealPolicy) -> None:
    forged = [changed(sealed, target=target) for target in flips(sealed.target)]
    assert [message for message in forged if verdict(message, warmed) == "holds"] == []


def test_no_byte_of_the_body_can_change(sealed: Message, warmed: SealPolicy) -> None:
    forged = [changed(sealed, body=body.encode("latin-1")) for body in flips(sealed.body.decode("latin-1"))]
    assert {verdict(message, warmed) for message in forged} == {"digest.mismatch"}


def test_no_character_of_the_signature_can_change(sealed: Message, warmed: SealPolicy) -> None:
    head, mark, last = header(sealed, "Signature").rpartition('signature="')
    forged = [with_value(sealed, "Signature", f"{head}{mark}{text}") for text in flips(last)]
    assert [message for message in forged if verdict(message, warmed) == "holds"] == []


def test_no_bit_of_the_signature_can_change(sealed: Message, warmed: SealPolicy) -> None:
    head, mark, last = header(sealed, "Signature").rpartition('signature="')
    forged = [
        with_value(sealed, "Signature", f'{head}{mark}{encode_base64(raw.encode("latin-1"))}"')
        for raw in flips(decode_base64(last[:-1], what="signature").decode("latin-1"))
    ]
    assert {verdict(message, warmed) for message in forged} == {"signature.invalid"}


def test_the_names_of_what_is_covered_cannot_change(sealed: Message, warmed: SealPolicy) -> None:
    names = " ".join(COVERED)
    value = header(sealed, "Signature")
    forged = [with_value(sealed, "Signature", value.replace(names, other)) for other in flips(names)]
    assert [message for message in forged if verdict(message, warmed) == "holds"] == []


def test_the_order_of_what_is_covered_cannot_change(sealed: Message, warmed: SealPolicy) -> None:
    other = header(sealed, "Signature").replace(" ".join(COVERED), " ".join(reversed(COVERED)))
    assert verdict(with_value(sealed, "Signature", other), warmed) == "signature.invalid"


def test_no_byte_that_the_authority_signed_can_change(pki: Pki, sealed: Message, warmed: SealPolicy) -> None:
    name, original = "TPP-Signature-Certificate", pki.qseal.certificate.x509.tbs_certificate_bytes
    for value in list(flips(header(sealed, name)))[::3]:
        if verdict(with_value(sealed, name, value), warmed) == "holds":
            raw = decode_base64(value, what="certificate")
            # What is left is the spelling of the authority's own signature, for example its count of unused bits.
            assert x509.load_der_x509_certificate(raw).tbs_certificate_bytes == original


FIELDS = ("Digest", "Signature", "TPP-Signature-Certificate", "X-Request-ID", "Content-Type", "PSU-ID")
HOSTILE = st.one_of(
    st.text(max_size=40),
    st.text(alphabet='",= \t\n\x00SN=CA()éabc+/', max_size=60),
    st.binary(max_size=60).map(lambda raw: raw.decode("latin-1")),
    st.binary(max_size=60).map(encode_base64),
    st.binary(min_size=32, max_size=32).map(lambda raw: f"SHA-256={encode_base64(raw)}"),
    st.builds(
        TEMPLATE.format,
        key_id=st.text(max_size=20) | st.just("SN=1,CA=CN=A"),
        algorithm=st.sampled_from(["ecdsa-sha256", "rsa-sha256", "x"]),
        headers=st.lists(st.sampled_from([*COVERED, "psu-id", "(created)", "X", ""])).map(" ".join),
        signature=st.binary(max_size=80).map(encode_base64),
    ),
)


@given(data=st.data())
def test_an_arbitrary_message_is_refused_and_nothing_else(
    data: st.DataObject, sealed: Message, warmed: SealPolicy
) -> None:
    good = dict(sealed.headers)
    fields = st.sampled_from(FIELDS) | st.text(max_size=10)
    values = HOSTILE | st.sampled_from(sorted(good.values()))
    headers = data.draw(st.lists(st.tuples(fields, values), max_size=8))
    message = Message(data.draw(st.text(max_size=6)), data.draw(st.text(max_size=30)), tuple(headers), b"{}")
    assert verdict(message, warmed) != "holds"


@given(name=st.sampled_from(FIELDS[:4]), value=HOSTILE)
def test_a_hostile_header_in_a_good_message_is_refused_and_nothing_else(
    name: str, value: str, sealed: Message, warmed: SealPolicy
) -> None:
    assert verdict(with_value(sealed, name, value), warmed) != "holds"


@given(
    method=st.text(max_size=8),
    target=st.binary(max_size=40),
    headers=st.lists(
        st.tuples(st.sampled_from([name.encode() for name in FIELDS]) | st.binary(), st.binary()), max_size=6
    ),
    body=st.binary(),
)
def test_arbitrary_bytes_from_the_wire_are_refused_and_nothing_else(
    method: str, target: bytes, headers: list[tuple[bytes, bytes]], body: bytes, sealed: Message, warmed: SealPolicy
) -> None:
    wire = [(name.encode(), value.encode("latin-1")) for name, value in sealed.headers]
    assert verdict(Message.from_wire(method, target, headers, body), warmed) != "holds"
    assert verdict(Message.from_wire(method, target, [*wire, *headers], body), warmed) != "holds"


@given(position=st.integers(0), byte=st.integers(0, 255))
def test_a_damaged_certificate_is_refused_and_nothing_else(
    position: int, byte: int, pki: Pki, sealed: Message, warmed: SealPolicy
) -> None:
    der = bytearray(pki.qseal.certificate.der)
    end = len(der) - 80  # before the authority's signature
    if der[position % end] != byte:
        der[position % end] = byte
        value = encode_base64(bytes(der))
        assert verdict(with_value(sealed, "TPP-Signature-Certificate", value), warmed) != "holds"
