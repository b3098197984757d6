"""Sealing a request, in one step or in two, with await, and with a look at one's own signature."""

from __future__ import annotations

import asyncio
import hashlib
from base64 import b64decode, b64encode
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.hazmat.primitives.hashes import SHA256, SHA384, SHA512
from hypothesis import given
from hypothesis import strategies as st
from sealing import (
    AT,
    REQUEST,
    REQUEST_ID,
    TARGET,
    fresh_policy,
    header,
    policy_of,
    request_for,
    seal_of,
    verdict,
    without,
)

from refusals import refused
from tppkit.errors import ConfigurationError, FormatError, LocalProtocolError, SignatureRejected
from tppkit.httpsig import Algorithm, CallableSigner, KeySigner
from tppkit.httpsig.algorithms import ALGORITHMS
from tppkit.httpsig.cavage import parse_signature_header
from tppkit.message import Message
from tppkit.seals import PROFILES, Format, Seal, prepare_request, sign_request, sign_request_async
from tppkit.testpki import Issued, Pki, make_pki

ADDED = ("Digest", "Signature", "TPP-Signature-Certificate")


class RemoteSigner:
    """A signer as a user of a key service would write it; what it signs with need not be what it says."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, public_key: CertificatePublicKeyTypes, name: str) -> None:
        self._key = key
        self._public_key = public_key
        self._name = name
        self.asked: list[bytes] = []

    @property
    def algorithm(self) -> Algorithm:
        return ALGORITHMS[self._name]

    @property
    def public_key(self) -> CertificatePublicKeyTypes:
        return self._public_key

    def sign(self, data: bytes) -> bytes:
        self.asked.append(data)
        return self._key.sign(data, ec.ECDSA(SHA256()))


def refusal(message: Message, seal: Seal) -> str:
    with pytest.raises((LocalProtocolError, FormatError, SignatureRejected)) as caught:
        sign_request(message, seal=seal)
    return caught.value.code


def by_hand(body: bytes) -> str:
    """The signing string of `REQUEST` with a body, as the draft says it."""
    digest = b64encode(hashlib.sha256(body).digest()).decode()
    return f"digest: SHA-256={digest}\nx-request-id: {REQUEST_ID}\n(request-target): post {TARGET}"


def test_a_custom_signer_gets_the_signing_string_of_the_draft(pki):
    signer = RemoteSigner(pki.qseal.key, pki.qseal.key.public_key(), "ecdsa-sha256")
    sealed = sign_request(REQUEST, seal=Seal(pki.qseal.certificate, signer))
    assert signer.asked[-1] == by_hand(REQUEST.body).encode()
    assert verdict(sealed, fresh_policy(pki)) == "holds"


EC_KINDS = [("p256", "ecdsa-sha256", SHA256()), ("p384", "ecdsa-sha384", SHA384())]


@pytest.mark.parametrize(
    ("kind", "name", "hash_algorithm"),
    [*EC_KINDS, ("rsa2048", "rsa-sha256", SHA256()), ("rsa2048", "rsa-sha512", SHA512())],
)
def test_a_seal_signs_with_the_hash_of_its_curve_or_the_one_it_was_given(kind, name, hash_algorithm):
    pki = make_pki(at=AT, key=kind, seed=None if kind == "rsa2048" else 3)
    given = {"algorithm": name} if kind == "rsa2048" else {}
    sealed = sign_request(REQUEST, seal=Seal(pki.qseal.certificate, KeySigner(pki.qseal.key, **given)))
    parameters, signed = parse_signature_header(header(sealed, "Signature")), by_hand(REQUEST.body).encode()
    assert parameters.algorithm == name
    padded = (padding.PKCS1v15(), hash_algorithm) if kind == "rsa2048" else (ec.ECDSA(hash_algorithm),)
    pki.qseal.key.public_key().verify(parameters.signature, signed, *padded)
    assert verdict(sealed, fresh_policy(pki)) == "holds"


def test_the_headers_of_the_seal_are_added_at_the_end_and_nothing_else_changes(pki, seal):
    sealed = sign_request(REQUEST, seal=seal)
    assert (sealed.method, sealed.target, sealed.body) == (REQUEST.method, REQUEST.target, REQUEST.body)
    assert sealed.headers[: len(REQUEST.headers)] == REQUEST.headers
    assert tuple(name for name, _ in sealed.headers[len(REQUEST.headers) :]) == ADDED
    assert b64decode(header(sealed, "TPP-Signature-Certificate"), validate=True) == pki.qseal.certificate.der


@pytest.mark.parametrize(
    ("message", "code"),
    [
        *((REQUEST.with_headers((name, "x")), "seal.header-present") for name in (*ADDED, *map(str.lower, ADDED))),
        (REQUEST.with_headers(("x-request-id", REQUEST_ID)), "seal.header-present"),
        (without(REQUEST, "X-Request-ID"), "signature.header-absent"),
        *((REQUEST._replace(target=target), "message.malformed")
          for target in ("", "/a b", "/a\r\nX-Evil: 1", "/ą", "/a\tb", "/\x80")),
        *((REQUEST._replace(method=method), "message.malformed") for method in ("", "PO ST", "POST\r\n", "post", "PÖST")),
    ],
)  # fmt: skip
def test_a_message_that_could_not_be_sent_or_has_a_header_of_the_seal_is_not_sealed(message, code, seal):
    assert refusal(message, seal) == code


@pytest.mark.parametrize(
    ("signs", "says", "name"),
    [
        ("other", "other", None),
        ("own", "other", "ecdsa-sha256"),
        ("other", "own", "ecdsa-sha256"),
        ("own", "own", "rsa-sha256"),
        ("own", "own", "ecdsa-sha384"),
    ],
)
def test_a_signer_of_another_key_or_algorithm_than_the_seals_is_refused(signs, says, name, pki, other_qseal):
    keys = {"own": pki.qseal.key, "other": other_qseal.key}
    signer = RemoteSigner(keys[signs], keys[says].public_key(), name) if name else KeySigner(keys[signs])
    with refused(ConfigurationError, "seal.key-mismatch"):
        Seal(pki.qseal.certificate, signer)


VISIBLE = st.text(alphabet=[chr(code) for code in range(0x21, 0x7F)], min_size=1, max_size=60)


@given(
    target=VISIBLE, request_id=VISIBLE, body=st.binary(max_size=200), method=st.sampled_from(["GET", "POST", "PATCH"])
)
def test_every_message_that_is_sealed_verifies(target, request_id, body, method, seal, pki):
    sealed = sign_request(Message(method, target, (("X-Request-ID", request_id),), body), seal=seal)
    assert verdict(sealed, fresh_policy(pki)) == "holds"


@pytest.mark.parametrize(("profile", "kind"), [(p, k) for p in PROFILES for k in ("p256", "rsa2048")])
def test_a_key_in_memory_seals_with_what_the_dialect_has_for_it(profile, kind, pki, rsa_pki):
    row, issued = PROFILES[profile], {"p256": pki, "rsa2048": rsa_pki}[kind].qseal
    usual = next(
        (name for _, name in row.algorithms if ALGORITHMS[name].key == {"p256": "P-256"}.get(kind, "rsa")), None
    )
    if usual is None:
        with refused(FormatError, "profile.key"):
            Seal.for_key(issued.certificate, issued.key, profile=row, key_id="https://tpp.example/seal.pem")
    else:
        seal = Seal.for_key(issued.certificate, issued.key, profile=row, key_id="https://tpp.example/seal.pem")
        assert (seal.signer.algorithm.name, seal.profile) == (usual, row)


def test_a_certificate_that_is_not_for_seals_makes_none(pki):
    with refused(ConfigurationError, "seal.certificate-type", match="is for web, not for seals"):
        Seal(pki.qwac.certificate, KeySigner(pki.qwac.key))


def strange_signer(issued: Issued, answer: object, *, good: int) -> CallableSigner:
    """Signs so many times, and then gives the answer or raises it."""
    signatures = iter(range(good))

    def sign(data: bytes) -> Any:
        if next(signatures, None) is not None:
            return issued.key.sign(data, ec.ECDSA(SHA256()))
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def sign_async(data: bytes) -> Any:
        return sign(data)

    return CallableSigner(issued.certificate.public_key, sign=sign, sign_async=sign_async)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("c2lnbmF0dXJl", "signer.answer"),
        (None, "signer.answer"),
        (RuntimeError("pin 4711"), "signer.failed"),
        (TypeError("x"), "signer.failed"),
        (ConfigurationError("signer.pin", "no"), "signer.pin"),
    ],
)
def test_a_signer_that_answers_nonsense_or_raises_gives_an_error_of_this_package(answer, code, pki):
    def seal_after(good: int) -> Seal:
        return Seal(pki.qseal.certificate, strange_signer(pki.qseal, answer, good=good))

    with pytest.raises(ConfigurationError) as caught:
        sign_request(REQUEST, seal=seal_after(1))
    assert (caught.value.code, "4711" in caught.value.message) == (code, False)
    with refused(ConfigurationError, code):
        asyncio.run(sign_request_async(REQUEST, seal=seal_after(1)))
    with refused(ConfigurationError, code):
        seal_after(0)


ROWS = pytest.mark.parametrize("row", PROFILES.values(), ids=PROFILES)


class Service:
    """Signs like a remote service: with await only, and counts."""

    def __init__(self, issued: Issued) -> None:
        self._key = issued.key
        self.asked = 0
        self.broken = False

    async def sign(self, data: bytes) -> bytes:
        await asyncio.sleep(0)
        self.asked += 1
        return self._key.sign(data[:-1] if self.broken else data, ec.ECDSA(hashes.SHA256()))


@pytest.fixture
def service(pki: Pki) -> Service:
    return Service(pki.qseal)


@pytest.fixture
def signer(pki: Pki, service: Service) -> CallableSigner:
    return CallableSigner(pki.qseal.certificate.public_key, sign_async=service.sign)


@ROWS
def test_what_is_prepared_and_signed_elsewhere_verifies_and_every_row_looks_at_its_own_signature(row, rsa_pki):
    seal = seal_of(row, rsa_pki.qseal)
    prepared = prepare_request(request_for(row), seal=seal, at=AT)
    sealed = prepared.finish(seal.signer.sign(prepared.signing_string))
    assert verdict(sealed, policy_of(row, rsa_pki)) == "holds"
    seal = seal_of(row, rsa_pki.qseal, verify_own=True)
    prepared = prepare_request(request_for(row), seal=seal, at=AT)
    signature = seal.signer.sign(prepared.signing_string)
    assert prepared.finish(signature)
    with refused(ConfigurationError, "seal.own-signature"):
        prepared.finish(bytes([signature[0] ^ 1]) + signature[1:])


def test_a_signer_that_only_awaits_is_probed_and_used_with_await_and_not_to_prepare(pki, service, signer):
    async def seal_two() -> tuple[Message, Message]:
        seal = await Seal.make_async(pki.qseal.certificate, signer)
        return tuple(await asyncio.gather(*(sign_request_async(REQUEST, seal=seal) for _ in range(2))))

    policy = fresh_policy(pki)
    assert [verdict(sealed, policy) for sealed in asyncio.run(seal_two())] == ["holds", "holds"]
    assert service.asked == 3
    seal = asyncio.run(Seal.make_async(pki.qseal.certificate, signer))
    prepared = prepare_request(REQUEST, seal=seal)
    assert service.asked == 4  # the probe of this seal
    assert prepared.signing_string.startswith(b"digest: SHA-256=")
    assert prepared.message is REQUEST


def test_a_signer_that_only_awaits_is_refused_by_the_blocking_calls_and_with_another_key(pki, signer, service):
    with refused(ConfigurationError, "signer.async-only"):
        Seal(pki.qseal.certificate, signer)
    seal = asyncio.run(Seal.make_async(pki.qseal.certificate, signer))
    with refused(ConfigurationError, "signer.async-only"):
        sign_request(REQUEST, seal=seal)
    service.broken = True
    with refused(ConfigurationError, "seal.key-mismatch"):
        asyncio.run(Seal.make_async(pki.qseal.certificate, signer))


@pytest.mark.parametrize("verify_own", [False, True])
def test_a_signature_that_does_not_verify_is_not_sent_if_configured(verify_own, pki, service, signer):
    seal = asyncio.run(Seal.make_async(pki.qseal.certificate, signer, verify_own=verify_own))
    assert verdict(asyncio.run(sign_request_async(REQUEST, seal=seal)), fresh_policy(pki)) == "holds"
    service.broken = True
    if not verify_own:
        assert verdict(asyncio.run(sign_request_async(REQUEST, seal=seal)), fresh_policy(pki)) == "signature.invalid"
        return
    with refused(ConfigurationError, "seal.own-signature"):
        asyncio.run(sign_request_async(REQUEST, seal=seal))


@ROWS
def test_a_row_seals_the_same_request_again_and_with_other_fields_also_twice_where_no_dialect_covers_them(row, rsa_pki):
    seal, policy = seal_of(row, rsa_pki.qseal), policy_of(row, rsa_pki)
    twice = (("X-Tag", "a"), ("x-tag", "b"))
    other = (("psu-id", "b"), ("TPP-Redirect-URI", "https://tpp.example/back"))
    for further in ((), (("PSU-ID", "a"),), (), other, twice):
        sealed = sign_request(request_for(row).with_headers(*further), seal=seal, at=AT)
        assert verdict(sealed, policy) == "holds"


@ROWS
def test_what_sealing_writes_or_covers_must_not_be_there_already(row, rsa_pki):
    seal = seal_of(row, rsa_pki.qseal)
    written = [
        row.carrier,
        *([] if row.covers_body else [row.digest_field]),
        *([row.certificate_header] if row.certificate_header else []),
    ]
    written += ["Signature-Input"] if row.format is Format.RFC9421 else []
    covered = [name for name in row.covered_if_present if not name.endswith("*")]
    for names in (*([name] for name in written), *([name, name.upper()] for name in covered)):
        with refused(LocalProtocolError, "seal.header-present"):
            sign_request(request_for(row).with_headers(*((name, "x") for name in names)), seal=seal, at=AT)
