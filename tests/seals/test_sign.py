"""Sealing a request."""

from __future__ import annotations

import asyncio
import hashlib
from base64 import b64decode, b64encode

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, padding
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.hazmat.primitives.hashes import SHA256, SHA384, SHA512
from hypothesis import given
from hypothesis import strategies as st
from sealing import AT, REQUEST, REQUEST_ID, TARGET, changed, fresh_policy, header, verdict, without

from refusals import refused
from tppkit.errors import ConfigurationError, FormatError, LocalProtocolError, SignatureRejected
from tppkit.httpsig import Algorithm, KeySigner
from tppkit.httpsig.algorithms import ALGORITHMS
from tppkit.httpsig.cavage import parse_signature_header
from tppkit.message import Message
from tppkit.seals import PROFILES, Seal, sign_request, sign_request_async
from tppkit.testpki import Issued, make_pki

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
        *((changed(REQUEST, target=target), "message.malformed")
          for target in ("", "/a b", "/a\r\nX-Evil: 1", "/ą", "/a\tb", "/\x80")),
        *((changed(REQUEST, method=method), "message.malformed") for method in ("", "PO ST", "POST\r\n", "post", "PÖST")),
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


class StrangeSigner(RemoteSigner):
    """Gives what it is told to, or raises it, from the second time on."""

    def __init__(self, issued: Issued, answer: object) -> None:
        super().__init__(issued.key, issued.key.public_key(), "ecdsa-sha256")
        self.answer, self.first = answer, True

    def sign(self, data: bytes) -> bytes:
        if self.first:
            self.first = False
            return super().sign(data)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[return-value]

    async def sign_async(self, data: bytes) -> bytes:
        return self.sign(data)


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
    with pytest.raises(ConfigurationError) as caught:
        sign_request(REQUEST, seal=Seal(pki.qseal.certificate, StrangeSigner(pki.qseal, answer)))
    assert (caught.value.code, "4711" in caught.value.message) == (code, False)
    with refused(ConfigurationError, code):
        asyncio.run(sign_request_async(REQUEST, seal=Seal(pki.qseal.certificate, StrangeSigner(pki.qseal, answer))))
    signer = StrangeSigner(pki.qseal, answer)
    signer.first = False
    with refused(ConfigurationError, code):
        Seal(pki.qseal.certificate, signer)
