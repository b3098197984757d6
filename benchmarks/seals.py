"""Sealing and verifying requests, against the bare signature operations of the same library and against another library.

A request of a bank's provider brings its certificate along, so taking the key out of it and comparing the digest belong to the
work; what the other library has no call for is done for it in the shortest way. Our verification judges the certificate, keyId
and organisation besides.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.x509 import load_der_x509_certificate
from http_message_signatures import HTTPMessageSigner, HTTPMessageVerifier, MappingKeyResolver
from http_message_signatures.algorithms import RSA_V1_5_SHA256

from harness import Line, Subject, against
from tppkit.seals import KeySigner, Message, Seal, SealPolicy, VerifiedRequest, sign_request, verify_request
from tppkit.testpki import Pki, make_pki
from tppkit.trust import PathVerifier, make_anchors

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)
COVERED = ("@method", "@path", "content-digest", "x-request-id")
BODY = (
    b'{"instructedAmount":{"currency":"EUR","amount":"12.50"},"creditorAccount":{"iban":"LT121000011101001000"},'
    b'"creditorName":"Bookshop","remittanceInformationUnstructured":"Order 4711"}'
)
HEADERS = (
    ("Host", "psd2.bank.example"),
    ("Accept", "application/json"),
    ("X-Request-ID", "99391c7e-ad88-49ec-a2ad-99ddcb1f7721"),
    ("Content-Type", "application/json"),
    ("PSU-IP-Address", "192.0.2.7"),
)
REQUEST = Message("POST", "/psd2/v1/payments/sepa-credit-transfers", HEADERS, BODY)


def sealing() -> Iterator[Line]:
    """Both kinds of key; the certificate is known when verifying."""
    for key, name, sign_limit, verify_limit in (("rsa2048", "RSA-2048", 1.15, 1.8), ("p256", "P-256", 1.4, 1.25)):
        pki = make_pki(at=AT, key=key)
        seal = Seal(pki.qseal.certificate, KeySigner(pki.qseal.key))
        sealed = sign_request(REQUEST, seal=seal)
        policy = SealPolicy(PathVerifier(make_anchors(pki.authorities)))

        def sign(seal: Seal = seal) -> object:
            return sign_request(REQUEST, seal=seal)

        def verify(sealed: Message = sealed, pki: Pki = pki, policy: SealPolicy = policy) -> VerifiedRequest:
            return verify_request(sealed, qwac=pki.qwac.certificate, at=AT, policy=policy)

        raw_sign, raw_verify = raw_operations(pki, verify().signing_string)
        yield against(f"seal sign {name}", sign, raw_sign, what=f"of raw {name} sign", at_most=sign_limit)
        yield against(f"seal verify {name}", verify, raw_verify, what=f"of raw {name} verify", at_most=verify_limit)
        if key == "rsa2048":
            what, theirs = "of http-message-signatures", http_message_signatures(sealed, pki)
            yield against(f"seal verify {name} as others do", verify, theirs, what=what, at_most=0.125)


def raw_operations(pki: Pki, data: bytes) -> tuple[Subject, Subject]:
    """Signing and verifying these bytes with nothing around it."""
    key = pki.qseal.key
    if isinstance(key, rsa.RSAPrivateKey):
        scheme, digest, public = padding.PKCS1v15(), hashes.SHA256(), key.public_key()
        signature = key.sign(data, scheme, digest)
        return lambda: key.sign(data, scheme, digest), lambda: public.verify(signature, data, scheme, digest)
    ecdsa, public_ec = ec.ECDSA(hashes.SHA256()), key.public_key()
    signature = key.sign(data, ecdsa)
    return lambda: key.sign(data, ecdsa), lambda: public_ec.verify(signature, data, ecdsa)


class SentCertificate:
    """The key that a request brings along, as http-message-signatures asks for keys."""

    def __init__(self, certificate: str) -> None:
        self._certificate = certificate

    def resolve_public_key(self, key_id: str) -> CertificatePublicKeyTypes:
        """The certificate's key, whatever it is called."""
        return load_der_x509_certificate(b64decode(self._certificate)).public_key()


def http_message_signatures(sealed: Message, pki: Pki) -> Subject:
    """RFC 9421 over the same parts of the request."""
    certificate = sealed.headers[-1][1]
    fields = dict(sealed.headers[:-3])
    request = SimpleNamespace(method=sealed.method, url=f"https://psd2.bank.example{sealed.target}", headers=fields)
    keys = MappingKeyResolver(public_keys={}, private_keys={"k": pki.qseal.key})
    HTTPMessageSigner(signature_algorithm=RSA_V1_5_SHA256, key_resolver=keys).sign(
        request, key_id="k", covered_component_ids=COVERED, body=sealed.body
    )

    def verify() -> object:
        verifier = HTTPMessageVerifier(signature_algorithm=RSA_V1_5_SHA256, key_resolver=SentCertificate(certificate))
        return verifier.verify(request, max_age=None, require_components=COVERED, body=sealed.body)

    return verify
