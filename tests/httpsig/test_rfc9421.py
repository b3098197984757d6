"""HTTP message signatures of RFC 9421."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote_to_bytes

import http_message_signatures as other
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from tppkit._encoding import encode_base64
from tppkit.errors import ConfigurationError, FormatError, SignatureRejected
from tppkit.httpsig import KeySigner
from tppkit.httpsig.algorithms import RFC9421, PrivateKey, make_verifiers
from tppkit.httpsig.components import Component, Origin
from tppkit.httpsig.rfc9421 import (
    make_signature_base,
    make_signature_fields,
    make_signature_input,
    parse_signature_fields,
    request_values,
    verify_message_signature,
)
from tppkit.message import Message

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)
NOW = int(AT.timestamp())
ORIGIN = Origin("https", "bank.example")
P256 = ec.generate_private_key(ec.SECP256R1())
RSA = rsa.generate_private_key(65537, 2048)
KEYS: dict[str, PrivateKey] = {
    "rsa-v1_5-sha256": RSA,
    "rsa-pss-sha512": RSA,
    "ecdsa-p256-sha256": P256,
    "ecdsa-p384-sha384": ec.generate_private_key(ec.SECP384R1()),
    "ed25519": ed25519.Ed25519PrivateKey.generate(),
}
COVERED = tuple(map(Component, ("@method", "@target-uri", "content-digest", "x-request-id")))
REQUEST = Message(
    "POST",
    "/v1/payments?x=1",
    (("Content-Digest", "sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:"), ("X-Request-ID", "r1")),
    b'{"hello": "world"}',
)


def sign(
    message: Message = REQUEST, *, name: str = "ecdsa-p256-sha256", label: str = "sig1", **parameters: Any
) -> Message:
    """A signed request, with `alg` unless it is given as None."""
    components = parameters.pop("components", COVERED)
    signature_input = make_signature_input(
        components, **({"created": AT, "algorithm": name, "key_id": "k"} | parameters)
    )
    base = make_signature_base(signature_input, request_values(message, origin=ORIGIN))
    signature = KeySigner(KEYS[name], algorithm=RFC9421[name].name).sign(base)
    fields = make_signature_fields(signature_input, signature, label=label)
    return message.with_headers(("Signature-Input", fields[0]), ("Signature", fields[1]))


def verify(message: Message, *, name: str = "ecdsa-p256-sha256", **options: Any) -> Any:
    verifiers = make_verifiers(KEYS[name].public_key(), names=RFC9421)
    return verify_message_signature(message, verifiers=verifiers, **({"at": AT, "origin": ORIGIN} | options))


def code_of(message: Message, **options: Any) -> str:
    with pytest.raises((FormatError, SignatureRejected)) as caught:
        verify(message, **options)
    return caught.value.code


def replaced(message: Message, name: str, old: str, new: str) -> Message:
    headers = tuple((key, value.replace(old, new) if key == name else value) for key, value in message.headers)
    assert headers != message.headers
    return message._replace(headers=headers)


@pytest.mark.parametrize("name", KEYS)
def test_what_a_key_signs_verifies_with_it_and_with_no_other(name):
    verified = verify(sign(name=name), name=name)
    assert verified.parameters.components == COVERED
    assert verified.base.startswith(b'"@method": POST\n"@target-uri": https://bank.example/v1/payments?x=1\n')
    kinds = {"rsa": rsa.generate_private_key(65537, 2048), "P-256": ec.generate_private_key(ec.SECP256R1()),
             "P-384": ec.generate_private_key(ec.SECP384R1()), "ed25519": ed25519.Ed25519PrivateKey.generate()}  # fmt: skip
    verifiers = make_verifiers(kinds[RFC9421[name].key].public_key(), names=RFC9421)
    with refused(SignatureRejected, "signature.invalid"):
        verify_message_signature(sign(name=name), verifiers=verifiers, at=AT, origin=ORIGIN)


def test_the_last_line_holds_what_signature_input_says_and_parameters_are_read():
    message = sign(expires=AT + timedelta(minutes=1), nonce='n"1', tag="t")
    (value,) = message.values("signature-input")
    assert verify(message).base.decode().split("\n")[-1] == f'"@signature-params": {value.removeprefix("sig1=")}'
    read = verify(sign(expires=AT + timedelta(minutes=1), nonce="n", tag="t")).parameters
    assert (read.created, read.expires, read.nonce, read.algorithm, read.key_id, read.tag) == (
        NOW, NOW + 60, "n", "ecdsa-p256-sha256", "k", "t",
    )  # fmt: skip


def test_spaces_that_structured_fields_allow_and_a_field_that_is_not_signed_change_nothing():
    message = replaced(sign(), "Signature-Input", '" "', '"   "')
    assert verify(replaced(message, "Signature-Input", ";keyid", ";  keyid")).base == verify(sign()).base
    assert verify(sign().with_headers(("X-Other", "1")))


Tamper = Callable[[Message], Message]
UNCHANGED: Tamper = lambda message: message  # noqa: E731  # as short as its use
TAMPERED: dict[str, tuple[Tamper, dict[str, Any], str]] = {
    "method": (lambda message: message._replace(method="PUT"), {}, "invalid"),
    "query": (lambda message: message._replace(target="/v1/payments?x=2"), {}, "invalid"),
    "no query": (lambda message: message._replace(target="/v1/payments"), {}, "invalid"),
    "case of the path": (lambda message: message._replace(target="/V1/payments?x=1"), {}, "invalid"),
    "port": (UNCHANGED, {"origin": Origin("https", "bank.example:8443")}, "invalid"),
    "scheme": (UNCHANGED, {"origin": Origin("http", "bank.example")}, "invalid"),
    "unknown origin": (UNCHANGED, {"origin": None}, "unsupported-component"),
    "field changed": (lambda message: replaced(message, "X-Request-ID", "r1", "r2"), {}, "invalid"),
    "field doubled": (lambda message: message.with_headers(("x-request-id", "r2")), {}, "invalid"),
    "field removed": (
        lambda message: message._replace(headers=tuple(one for one in message.headers if one[0] != "X-Request-ID")), {},
        "header-absent",
    ),
    **{
        f"{old} to {new}": (
            lambda message, old=old, new=new: replaced(message, "Signature-Input", old, new),
            {"at": AT + timedelta(days=36500)}, "invalid",
        )
        for old, new in (
            ('"@method" ', ""), ("created=1", "created=2"), ('keyid="k"', 'keyid="l"'), ('"x-request-id")', ")"), (");", ');tag="x";'),
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("name", TAMPERED)
def test_what_was_changed_is_detected(name):
    tamper, options, code = TAMPERED[name]
    assert code_of(tamper(sign()), **options) == f"signature.{code}"


def test_many_covered_query_parameters_read_the_query_once(monkeypatch):
    read: list[str] = []  # counted, because time depends on the machine
    monkeypatch.setattr(
        "tppkit.httpsig.components.unquote_to_bytes", lambda text: read.append(text) or unquote_to_bytes(text)
    )
    names = [f"p{number}" for number in range(64)]
    message = Message("GET", "/?" + "&".join(f"{name}=1" for name in names))
    components = [Component("@query-param", (("name", name),)) for name in names]
    base = make_signature_base(make_signature_input(components, created=AT), request_values(message))
    assert base.startswith(b'"@query-param";name="p0": 1\n')
    assert len(read) == 2 * 64


def test_an_hmac_keyed_with_the_public_key_and_ecdsa_in_der_are_refused():
    parameters = make_signature_input(COVERED, created=AT, algorithm="hmac-sha256", key_id="k")
    base = make_signature_base(parameters, request_values(REQUEST, origin=ORIGIN))
    for encoding in (Encoding.PEM, Encoding.DER):
        secret = RSA.public_key().public_bytes(encoding, PublicFormat.SubjectPublicKeyInfo)
        fields = make_signature_fields(parameters, hmac.digest(secret, base, hashlib.sha256), label="sig1")
        message = REQUEST.with_headers(("Signature-Input", fields[0]), ("Signature", fields[1]))
        assert code_of(message, name="rsa-v1_5-sha256") == "signature.algorithm"
    parameters = make_signature_input(COVERED, created=AT)
    base = make_signature_base(parameters, request_values(REQUEST, origin=ORIGIN))
    fields = make_signature_fields(
        parameters, P256.sign(base, ec.ECDSA(RFC9421["ecdsa-p256-sha256"].hash)), label="sig1"
    )
    message = REQUEST.with_headers(("Signature-Input", fields[0]), ("Signature", fields[1]))
    assert code_of(message) == "signature.invalid"


@pytest.mark.parametrize(
    "name", ["none", "", "rsa-sha1", "rsa-sha256", "ecdsa-sha256", "ed25519", "hs2019", "ECDSA-P256-SHA256"]
)
def test_an_algorithm_that_the_key_does_not_have_is_refused(name):
    message = replaced(sign(), "Signature-Input", "ecdsa-p256-sha256", name)
    assert code_of(message) == "signature.algorithm"


def test_an_algorithm_that_was_agreed_on_is_kept_to_and_a_signature_made_with_another_is_refused():
    message = sign(name="rsa-v1_5-sha256")
    assert verify(message, name="rsa-v1_5-sha256", algorithm="rsa-v1_5-sha256")
    assert code_of(message, name="rsa-v1_5-sha256", algorithm="rsa-pss-sha512") == "signature.algorithm"
    assert verify(sign(algorithm=None))
    message = sign(name="rsa-pss-sha512", algorithm=None)
    assert verify(message, name="rsa-pss-sha512", algorithm="rsa-pss-sha512")
    assert code_of(message, name="rsa-pss-sha512") == "signature.algorithm"
    assert code_of(sign(algorithm=None), algorithm="ed25519") == "signature.algorithm"
    message = sign(name="rsa-v1_5-sha256", algorithm="rsa-pss-sha512")
    assert code_of(message, name="rsa-v1_5-sha256") == "signature.invalid"


def two() -> Message:
    """Two signatures in one field each: a by the key P-256, b by RSA over less."""
    first = sign(label="a")
    (input_a,), (signature_a,) = first.values("signature-input"), first.values("signature")
    second = sign(name="rsa-pss-sha512", label="b", components=COVERED[:1])
    (input_b,), (signature_b,) = second.values("signature-input"), second.values("signature")
    return REQUEST.with_headers(
        ("Signature-Input", f"{input_a}, {input_b}"), ("Signature", f"{signature_b}, {signature_a}")
    )


def test_one_of_several_signatures_is_chosen_by_its_label_which_must_be_stated():
    assert verify(two(), label="a").parameters.components == COVERED
    assert verify(two(), label="b", name="rsa-pss-sha512").parameters.components == COVERED[:1]
    assert code_of(two()) == "signature.label"
    assert code_of(sign(), label="sig2") == "signature.missing"
    assert code_of(REQUEST) == code_of(REQUEST, label="sig1") == "signature.missing"


def test_several_field_lines_are_one_field():
    (inputs,), (signatures,) = two().values("signature-input"), two().values("signature")
    lines = [("Signature-Input", part) for part in inputs.split(", b=")]
    lines[1] = ("Signature-Input", "b=" + lines[1][1])
    message = REQUEST.with_headers(*lines, ("Signature", signatures))
    assert verify(message, label="a")


def test_swapped_labels_are_refused():
    signature_b, signature_a = (part.partition("=")[2] for part in two().values("signature")[0].split(", "))
    swapped = ("Signature", f"a={signature_b}, b={signature_a}")
    message = two()._replace(headers=(*two().headers[:-1], swapped))
    assert code_of(message, label="a") == "signature.invalid"
    assert code_of(message, label="b", name="rsa-pss-sha512") == "signature.invalid"


@pytest.mark.parametrize("name", ["Signature-Input", "Signature"])
def test_a_label_that_appears_twice_or_without_its_other_half_is_refused(name):
    message = sign()
    (value,) = message.values(name)
    assert code_of(message.with_headers((name, value)), label="sig1") == "structured.duplicate"
    extra = "sig2=()" if name == "Signature-Input" else "sig2=:YQ==:"
    assert code_of(sign().with_headers((name, extra)), label="sig1") == "signature.label"
    alone = tuple(header for header in sign().headers if header[0] != name)
    assert code_of(sign()._replace(headers=alone), label="sig1") == "signature.label"


NO_NAMES = (
    "(1)",
    "(date)",
    '("date" "date")',
    '("date";bs "date";bs)',
    '("x";bs;key="a" "x";key="a";bs)',
    '("@signature-params")',
    f"({' '.join(chr(34) + f'h{n}' + chr(34) for n in range(65))})",
)
NO_PARAMETERS = ("created=1.5", 'created="1"', "created", "expires=:YQ==:", "keyid=k", "nonce=1", "other=1")


@pytest.mark.parametrize(
    ("value", "code"),
    [
        *((f"sig1{value}", "signature.malformed") for value in ("=1", '="x"', "")),
        *((f"sig1={names}", "signature.covered-names") for names in NO_NAMES),
        *((f"sig1=();{parameter}", "signature.malformed") for parameter in NO_PARAMETERS),
        ("sig1=();created=1;created=2", "structured.duplicate"),
        ('sig1=("x";bs;bs)', "structured.duplicate"),
        ("sig1=(", "structured.malformed"),
    ],
)
def test_a_signature_input_that_can_mean_two_things_is_refused(value, code):
    with refused(FormatError, code):
        parse_signature_fields(value, "sig1=:YQ==:", label="sig1")


def test_the_same_field_under_other_parameters_is_another_component():
    parameters, _ = parse_signature_fields('s=("x";bs "x" "x";bs=1)', "s=:YQ==:")
    assert len(parameters.components) == 3


@pytest.mark.parametrize(
    ("value", "code"),
    [("sig1", "signature.malformed"), ('sig1="YQ=="', "signature.malformed"), ("sig1=(:YQ==:)", "signature.malformed"),
     ("sig1=:YQ==:;x", "signature.malformed"), ("sig1=:YQ:", "base64.malformed"), ("sig1=:YR==:", "base64.noncanonical")],
)  # fmt: skip
def test_a_signature_that_is_not_a_byte_sequence_is_refused(value, code):
    with refused(FormatError, code):
        parse_signature_fields("sig1=()", value, label="sig1")


@pytest.mark.parametrize("label", ["", "Sig1", "a b", "1a", "ä"])
def test_a_label_or_a_value_that_no_field_can_hold_is_not_written(label):
    with refused(FormatError, "signature.unsupported-component"):
        make_signature_base(make_signature_input((Component("x"),)), lambda _: 'a\n"y": b')
    with refused(FormatError, "signature.label"):
        make_signature_fields(make_signature_input(()), b"", label=label)


def test_a_signature_counts_from_its_creation_to_its_end_or_the_callers_age():
    assert code_of(sign(), at=AT - timedelta(hours=1)) == "signature.created"
    assert code_of(sign(expires=AT), at=AT + timedelta(hours=1)) == "signature.expired"
    assert verify(sign(), at=AT + timedelta(days=900))
    assert code_of(sign(), at=AT + timedelta(minutes=7), max_age=timedelta(minutes=1)) == "signature.expired"
    assert code_of(sign(created=None), max_age=timedelta(minutes=1)) == "signature.created"
    with pytest.raises(ConfigurationError):
        make_signature_input((), created=datetime(2026, 6, 1))
    with pytest.raises(ConfigurationError):
        verify(sign(), at=datetime(2026, 6, 1))


TEXTS = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=12)


@given(
    st.lists(st.sampled_from([*COVERED, Component("@query"), Component("x-request-id", (("bs", True),))]), unique=True),
    st.fixed_dictionaries({}, optional={"nonce": TEXTS, "algorithm": TEXTS, "key_id": TEXTS, "tag": TEXTS}),
    st.binary(max_size=100),
)
def test_round_trip(components, texts, signature):
    made = make_signature_input(components, created=AT, expires=AT, **texts)
    assert parse_signature_fields(*make_signature_fields(made, signature, label="l"), label="l") == (made, signature)


@given(st.one_of(st.text(max_size=50), st.text('sig1=("@date";bs):YQ,?', max_size=50)))
def test_only_typed_errors_escape(text):
    with suppress(FormatError, SignatureRejected):
        parse_signature_fields(text, text)
    with suppress(FormatError, SignatureRejected):
        parse_signature_fields(text, "sig1=:YQ==:", label="sig1")


@given(st.data())
def test_a_signature_with_any_bit_changed_is_refused(data):
    message = sign(name="ed25519")
    verified = verify(message, name="ed25519")
    (_, raw) = parse_signature_fields(*(message.values(name)[0] for name in ("signature-input", "signature")))
    at = data.draw(st.integers(0, len(raw) * 8 - 1))
    changed = bytearray(raw)
    changed[at // 8] ^= 1 << at % 8
    message = replaced(message, "Signature", encode_base64(raw), encode_base64(bytes(changed)))
    assert verified
    assert code_of(message, name="ed25519") == "signature.invalid"


@dataclass
class TheirRequest:
    """A request as the other implementation takes it."""

    method: str = REQUEST.method
    url: str = f"https://bank.example{REQUEST.target}"
    headers: dict[str, str] = field(default_factory=lambda: dict(REQUEST.headers))


THEIR_ALGORITHMS = {
    "rsa-v1_5-sha256": other.algorithms.RSA_V1_5_SHA256,
    "rsa-pss-sha512": other.algorithms.RSA_PSS_SHA512,
    "ecdsa-p256-sha256": other.algorithms.ECDSA_P256_SHA256,
    "ed25519": other.algorithms.ED25519,
}
THEIR_COMPONENTS = ("@method", "@target-uri", "@authority", "@scheme", "@path", "@query", '"@query-param";name="x"',
                    "content-digest", '"x-request-id";bs', '"content-digest";key="sha-256"')  # fmt: skip


@pytest.mark.parametrize("name", THEIR_ALGORITHMS)
def test_what_another_implementation_signs_verifies(name):
    keys = other.MappingKeyResolver(public_keys={}, private_keys={"k": KEYS[name]})
    signer = other.HTTPMessageSigner(signature_algorithm=THEIR_ALGORITHMS[name], key_resolver=keys)
    request = TheirRequest()
    signer.sign(
        request,
        key_id="k",
        created=AT,
        nonce="n",
        tag="t",
        covered_component_ids=THEIR_COMPONENTS,
        use_existing_digest=True,
    )
    verified = verify(REQUEST._replace(headers=tuple(request.headers.items())), name=name)
    assert len(verified.parameters.components) == len(THEIR_COMPONENTS)


class OldVerifier(other.HTTPMessageVerifier):
    """Judges no time: the other implementation knows only the present."""

    def validate_created_and_expires(self, sig_input: Any, max_age: Any = None) -> None:
        pass


@pytest.mark.parametrize("name", THEIR_ALGORITHMS)
def test_what_we_sign_another_implementation_verifies(name):
    identifiers = " ".join(name if name.startswith('"') else f'"{name}"' for name in THEIR_COMPONENTS)
    components = parse_signature_fields(f"s=({identifiers})", "s=:YQ==:")[0].components
    message = sign(name=name, components=components, tag="t")
    keys = other.MappingKeyResolver(public_keys={"k": KEYS[name].public_key()}, private_keys={})
    verifier = OldVerifier(signature_algorithm=THEIR_ALGORITHMS[name], key_resolver=keys)
    (result,) = verifier.verify(
        TheirRequest(headers=dict(message.headers)), max_age=None, expect_tag="t", body=REQUEST.body,
        require_components=("content-digest",),
    )  # fmt: skip
    assert result.body == REQUEST.body
