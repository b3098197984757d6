"""Detached JSON Web Signatures."""

from __future__ import annotations

import hashlib
import hmac
import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jws
from joserfc.jwk import ECKey, OKPKey, RSAKey
from joserfc.registry import HeaderParameter

from refusals import refused
from tppkit._encoding import decode_base64url, encode_base64url
from tppkit.errors import FormatError, SignatureRejected
from tppkit.httpsig import KeySigner, make_digest, make_signing_string, message_components
from tppkit.httpsig.algorithms import JWS, PrivateKey, make_verifiers
from tppkit.httpsig.jws import (
    HTTP_HEADERS,
    VerifiedJws,
    make_detached_jws,
    make_jws_header,
    make_jws_signing_input,
    parse_detached_jws,
    verify_detached_jws,
)
from tppkit.message import Message

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)
P256 = ec.generate_private_key(ec.SECP256R1())
ED25519 = ed25519.Ed25519PrivateKey.generate()
RSA = rsa.generate_private_key(65537, 2048)
KEYS: dict[str, PrivateKey] = {
    "RS256": RSA,
    "RS512": RSA,
    "PS256": RSA,
    "PS512": RSA,
    "ES256": P256,
    "ES384": ec.generate_private_key(ec.SECP384R1()),
    "EdDSA": ED25519,
    "Ed25519": ED25519,
}
BODY = b'{"hello": "world"}'
REQUEST = Message("POST", "/v1/payments?x=1", (("Digest", make_digest(BODY)), ("X-Request-ID", "r1")), BODY)
COVERED = ("(request-target)", "digest", "x-request-id")
HEADER: dict[str, Any] = {
    "b64": False,
    "x5t#S256": encode_base64url(bytes(32)),
    "crit": ["sigT", "sigD", "b64"],
    "sigT": "2026-06-01T12:00:00Z",
    "sigD": {"pars": ["(request-target)", "content-type", "digest"], "mId": HTTP_HEADERS},
    "alg": "PS256",
}


def payload_of(message: Message, covered: tuple[str, ...] = COVERED) -> bytes:
    return make_signing_string(covered, message_components(message)[0])


def sign(name: str = "ES256", message: Message = REQUEST) -> str:
    header = make_jws_header(COVERED, algorithm=name, signed_at=AT)
    signer = KeySigner(KEYS[name], algorithm=JWS[name].name)
    return make_detached_jws(header, signer.sign(make_jws_signing_input(header, payload_of(message))))


def verify(value: str, name: str = "ES256", message: Message = REQUEST, **options: Any) -> VerifiedJws:
    verifiers = make_verifiers(KEYS[name].public_key(), names=JWS)
    signed = message.with_headers(("x-jws-signature", value))
    return verify_detached_jws(signed, verifiers=verifiers, **({"at": AT} | options))


def raw(header: bytes | dict[str, Any], signature: bytes = b"x") -> str:
    """A signature under any header, well formed or not."""
    encoded = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    return f"{encode_base64url(encoded)}..{encode_base64url(signature)}"


def code_of(value: str) -> str:
    with pytest.raises(FormatError) as caught:
        parse_detached_jws(value)
    return caught.value.code


def with_values(**values: Any) -> dict[str, Any]:
    """The good header with these parameters; without those given as None."""
    header = HEADER | {name.replace("__", "#"): value for name, value in values.items()}
    return {name: value for name, value in header.items() if value is not None}


@pytest.mark.parametrize("name", KEYS)
def test_what_a_key_signs_verifies_with_it(name):
    verified = verify(sign(name), name)
    assert verified.header.covered == COVERED
    assert verified.signing_input.endswith(b"\nx-request-id: r1")


def test_a_request_without_a_signature_or_with_two_is_refused():
    verifiers = make_verifiers(P256.public_key(), names=JWS)
    with pytest.raises(SignatureRejected) as missing:
        verify_detached_jws(REQUEST, verifiers=verifiers, at=AT)
    with pytest.raises(FormatError) as doubled:
        verify(sign(), message=REQUEST.with_headers(("X-JWS-Signature", sign())))
    assert (missing.value.code, doubled.value.code) == ("signature.missing", "header.duplicate")


def test_a_signature_that_is_too_old_or_too_new_is_refused():
    for at, code in ((AT - timedelta(hours=1), "signature.created"), (AT + timedelta(hours=1), "signature.expired")):
        with refused(SignatureRejected, code):
            verify(sign(), at=at, max_age=timedelta(minutes=5))


def test_the_header_of_a_bank_is_read_with_what_it_may_write_otherwise():
    header, signature = parse_detached_jws(raw(HEADER))
    assert header.algorithm == "PS256"
    assert header.covered == ("(request-target)", "content-type", "digest")
    assert (header.signed_at, header.certificate_sha256, header.certificates, header.key_id) == (
        AT,
        bytes(32),
        (),
        None,
    )
    assert signature == b"x"
    header, _ = parse_detached_jws(raw(with_values(sigD={"pars": ["Digest", "X-Request-ID"], "mId": HTTP_HEADERS})))
    assert header.covered == ("digest", "x-request-id")
    header, _ = parse_detached_jws(raw(with_values(sigT=None, iat=int(AT.timestamp()), crit=["iat", "sigD", "b64"])))
    assert header.signed_at == AT
    header, _ = parse_detached_jws(raw(with_values(typ="JOSE", cty="json", other={"a": 1})))
    assert header.algorithm == "PS256"


def test_the_signed_bytes_are_the_header_a_point_and_the_lines_unchanged():
    header, _ = parse_detached_jws(sign())
    digest = REQUEST.values("digest")[0]
    expected = f"{header.encoded}.(request-target): post /v1/payments?x=1\ndigest: {digest}\nx-request-id: r1"
    assert make_jws_signing_input(header, payload_of(REQUEST)) == expected.encode()


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"method": "PUT"}, "signature.invalid"),
        ({"target": "/v1/payments"}, "signature.invalid"),
        ({"headers": (REQUEST.headers[0], ("X-Request-ID", "r2"))}, "signature.invalid"),
        ({"headers": REQUEST.headers[:1]}, "signature.header-absent"),
    ],
)
def test_a_request_that_was_changed_is_detected(change, code):
    with refused(SignatureRejected, code):
        verify(sign(), message=REQUEST._replace(**change))


def test_a_signature_over_another_header_or_payload_or_by_an_hmac_is_refused():
    encoded, _, signature = sign().partition("..")
    header = json.loads(decode_base64url(encoded, what="header"))
    header["sigD"]["pars"].remove("x-request-id")
    with refused(SignatureRejected, "signature.invalid"):
        verify(raw(header, decode_base64url(signature, what="signature")))
    header = make_jws_header(COVERED, algorithm="ES256", signed_at=AT)
    encoded = encode_base64url(payload_of(REQUEST)).encode()
    signature = KeySigner(P256, algorithm=JWS["ES256"].name).sign(make_jws_signing_input(header, encoded))
    with refused(SignatureRejected, "signature.invalid"):
        verify(make_detached_jws(header, signature))
    header = make_jws_header(COVERED, algorithm="HS256", signed_at=AT)
    data = make_jws_signing_input(header, payload_of(REQUEST))
    for encoding in (Encoding.PEM, Encoding.DER):
        secret = RSA.public_key().public_bytes(encoding, PublicFormat.SubjectPublicKeyInfo)
        with refused(SignatureRejected, "signature.algorithm"):
            verify(make_detached_jws(header, hmac.digest(secret, data, hashlib.sha256)), "RS256")


@pytest.mark.parametrize("name", ["none", "None", "HS256", "HS512", "", "RS1", "ES256K", "PS384", "es256"])
def test_an_algorithm_that_no_key_has_is_refused(name):
    encoded, _, signature = sign().partition("..")
    header = json.loads(decode_base64url(encoded, what="header")) | {"alg": name}
    with refused(SignatureRejected, "signature.algorithm"):
        verify(raw(header, decode_base64url(signature, what="signature")))


@pytest.mark.parametrize(("signed", "named"), [("RS256", "PS256"), ("PS256", "RS256"), ("PS256", "PS512")])
def test_another_algorithm_of_the_key_than_was_used_is_refused(signed, named):
    header = make_jws_header(COVERED, algorithm=named, signed_at=AT)
    signature = KeySigner(RSA, algorithm=JWS[signed].name).sign(make_jws_signing_input(header, payload_of(REQUEST)))
    with refused(SignatureRejected, "signature.invalid"):
        verify(make_detached_jws(header, signature), "RS256")


CRIT = ["sigT", "sigD", "b64"]
NO_CRIT = (None, [], "b64", [1], CRIT[:2], ["sigT", "b64"], [*CRIT, "b64"], [*CRIT, "iat"], [*CRIT, "alg"])
NO_SIGNED_DATA = (
    [],
    {"pars": ["digest"]},
    {"pars": ["digest"], "mId": "http://uri.etsi.org/19182/ObjectIdByURI"},
    {"pars": ["digest"], "mId": HTTP_HEADERS, "hashM": "S256"},
)
MANY = [f"h{n}" for n in range(65)]
NO_NAMES = ([], "digest", [1], ["digest", "Digest"], ["(status-line)"], ["di gest"], ["a\nb"], MANY)
NO_TIMES = ("2026-06-01T12:00:00+00:00", "2026-06-01T12:00:00.5Z", "2026-06-31T12:00:00Z", 1)


@pytest.mark.parametrize(
    ("header", "code"),
    [
        *((with_values(crit=crit), "jws.critical") for crit in NO_CRIT),
        (with_values(crit=[*CRIT, "exp"], exp=1), "jws.critical"),
        (with_values(b64=None), "jws.critical"),
        (with_values(b64=None, crit=["sigT", "sigD"]), "jws.critical"),
        (with_values(sigD=None), "jws.critical"),
        *((with_values(b64=b64), "jws.encoded-payload") for b64 in (True, 0, "false")),
        (with_values(jwk={}), "jws.offered-key"),
        (with_values(jku="https://attacker.example"), "jws.offered-key"),
        (with_values(x5u="https://attacker.example"), "jws.offered-key"),
        *((with_values(alg=alg), "jws.malformed") for alg in (None, 1)),
        (with_values(kid=1), "jws.malformed"),
        *((with_values(x5t__S256=value), "jws.malformed") for value in (1, encode_base64url(bytes(20)))),
        (with_values(x5t__S256="A"), "base64.malformed"),
        *((with_values(x5c=x5c), "jws.malformed") for x5c in ("MII", [1], ["AAAA"] * 9)),
        *((with_values(x5c=x5c), "base64.malformed") for x5c in (["A-_A"], ["AAA"])),
        *((with_values(sigD=signed), "jws.signed-data") for signed in NO_SIGNED_DATA),
        *((with_values(sigD={"pars": pars, "mId": HTTP_HEADERS}), "jws.covered-names") for pars in NO_NAMES),
        *((with_values(sigT=time), "jws.time") for time in NO_TIMES),
        (with_values(iat=1), "jws.time"),
        *((with_values(sigT=None, crit=["sigD", "b64"], iat=iat), "jws.time") for iat in ("1", True, 10**30)),
        (b"[]", "jws.malformed"),
        (b'"x"', "jws.malformed"),
        (b"{", "json.malformed"),
        (b"\xff", "json.malformed"),
        (b'{"alg":"PS256","alg":"none"}', "json.duplicate-name"),
        (b'{"sigD":{"pars":[],"pars":[]}}', "json.duplicate-name"),
        (b'{"a":' + b"[" * 9 + b"]" * 9 + b"}", "json.too-deep"),
    ],
)
def test_a_header_that_can_mean_two_things_is_refused(header, code):
    assert code_of(raw(header)) == code


@pytest.mark.parametrize(
    ("value", "code"),
    [
        *(
            (value, "jws.malformed")
            for value in ("", "..", "e30..", "..YQ", "e30.YQ", "e30...YQ", "e30=..YQ", "e30..YQ==")
        ),
        *((value, "jws.malformed") for value in ("e30..Y+", "e30 ..YQ", " e30..YQ", "e30..YQ\n", "A" * 40000 + "..YQ")),
        ("e30.YQ.YQ", "jws.attached"),
        ("e31..YQ", "base64.noncanonical"),
        ("e..YQ", "base64.malformed"),
        (raw(HEADER)[:-2] + "eB", "base64.noncanonical"),
    ],
)
def test_what_is_not_the_detached_compact_form_is_refused(value, code):
    assert code_of(value) == code


NAMES = st.from_regex(r"[a-z0-9-]{1,12}", fullmatch=True)


@given(
    st.lists(NAMES, min_size=1, max_size=6, unique=True),
    st.lists(st.binary(min_size=1, max_size=30), max_size=3),
    st.one_of(st.none(), st.binary(min_size=32, max_size=32)),
    st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"]), max_size=9)),
    st.binary(min_size=1, max_size=99),
)
def test_round_trip(covered, certificates, thumbprint, key_id, signature):
    made = make_jws_header(
        covered,
        algorithm="ES256",
        signed_at=AT,
        certificates=certificates,
        certificate_sha256=thumbprint,
        key_id=key_id,
    )
    assert parse_detached_jws(make_detached_jws(made, signature)) == (made, signature)
    carried = (made.covered, made.certificates, made.certificate_sha256, made.key_id)
    assert carried == (tuple(covered), tuple(certificates), thumbprint, key_id)
    assert (made.key_id, made.signed_at) == (key_id, AT)


JSON_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=9)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=5), inner, max_size=4)),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*HEADER, "x5c", "kid", "iat", "other"]), JSON_VALUES, max_size=3))
def test_only_format_error_escapes_from_any_header(changes):
    with suppress(FormatError):
        parse_detached_jws(raw(HEADER | changes))


@given(st.one_of(st.text(max_size=60), st.text("eyJ0.-_=", max_size=60), st.binary(max_size=60).map(raw)))
def test_only_format_error_escapes(value):
    with suppress(FormatError):
        parse_detached_jws(value)


THEIR_KEYS = {"ES256": ECKey, "RS256": RSAKey, "PS256": RSAKey, "PS512": RSAKey, "Ed25519": OKPKey}


def their_key(name: str) -> Any:
    pem = KEYS[name].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return THEIR_KEYS[name].import_key(pem)


def their_registry() -> jws.JWSRegistry:
    extra = {name: HeaderParameter(name, "str") for name in ("sigT",)}
    extra["sigD"] = HeaderParameter("sigD", lambda value: None)
    return jws.JWSRegistry(header_registry=extra, algorithms=list(THEIR_KEYS))


@pytest.mark.parametrize("name", THEIR_KEYS)
def test_another_implementation_verifies_what_we_sign_and_signs_what_we_verify(name):
    header = with_values(alg=name, sigD={"pars": list(COVERED), "mId": HTTP_HEADERS})
    value = jws.serialize_compact(header, payload_of(REQUEST), their_key(name), registry=their_registry())
    verify(value, name)
    read = jws.deserialize_compact(sign(name), their_key(name), payload=payload_of(REQUEST), registry=their_registry())
    assert read.headers()["sigD"]["pars"] == list(COVERED)
