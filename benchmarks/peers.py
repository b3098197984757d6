"""Verifying the same RSA request as other libraries do it.

A request of a bank's provider brings its certificate along, so taking the key out of it and comparing the digest belong to the
work; what the others have no call for is done for them in the shortest way. Our verification judges the certificate, keyId and
organisation besides.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace

from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509 import load_der_x509_certificate
from http_message_signatures import HTTPMessageSigner, HTTPMessageVerifier, MappingKeyResolver
from http_message_signatures.algorithms import RSA_V1_5_SHA256

import httpsig
from harness import Line, Subject, against
from tppkit.httpsig.digest import make_digest
from tppkit.seals import KeySigner, Message, Seal, SealPolicy, sign_request, verify_request
from tppkit.testpki import Pki, make_pki
from tppkit.trust import PathVerifier, make_anchors

_COVERED = ("@method", "@path", "content-digest", "x-request-id")
AT = datetime(2026, 6, 1, 12, tzinfo=UTC)


def verifying(message: Message) -> Iterator[Line]:
    """Our whole verification against signature, digest and key by others."""
    pki = make_pki(at=AT, key="rsa2048")
    sealed = sign_request(message, seal=Seal(pki.qseal.certificate, KeySigner(pki.qseal.key)))
    policy = SealPolicy(PathVerifier(make_anchors(pki.authorities)))
    qwac = pki.qwac.certificate

    def ours() -> object:
        return verify_request(sealed, qwac=qwac, at=AT, policy=policy)

    peers = (
        ("http-message-signatures", http_message_signatures(sealed, pki), 0.1),
        ("httpsig", httpsig_verify(sealed), 0.05),
    )
    for what, theirs, limit in peers:
        yield against("seal verify RSA-2048, known", ours, theirs, what=what, limit=limit, rounds=60, block=20)


def key_of(certificate: str) -> CertificatePublicKeyTypes:
    """The key of the certificate in a header."""
    return load_der_x509_certificate(b64decode(certificate)).public_key()


class SentCertificate:
    """The key that a request brings along, as http-message-signatures asks for keys."""

    def __init__(self, certificate: str) -> None:
        self._certificate = certificate

    def resolve_public_key(self, key_id: str) -> CertificatePublicKeyTypes:
        """The certificate's key, whatever it is called."""
        return key_of(self._certificate)


def http_message_signatures(sealed: Message, pki: Pki) -> Subject:
    """RFC 9421 over the same parts of the request."""
    certificate = sealed.headers[-1][1]
    fields = dict(sealed.headers[:-3])
    request = SimpleNamespace(method=sealed.method, url=f"https://psd2.bank.example{sealed.target}", headers=fields)
    keys = MappingKeyResolver(public_keys={}, private_keys={"k": pki.qseal.key})
    HTTPMessageSigner(signature_algorithm=RSA_V1_5_SHA256, key_resolver=keys).sign(
        request, key_id="k", covered_component_ids=_COVERED, body=sealed.body
    )

    def verify() -> object:
        verifier = HTTPMessageVerifier(signature_algorithm=RSA_V1_5_SHA256, key_resolver=SentCertificate(certificate))
        return verifier.verify(request, max_age=None, require_components=_COVERED, body=sealed.body)

    return verify


def httpsig_verify(sealed: Message) -> Subject:
    """draft-cavage, the very same request; it takes its key as PEM."""
    headers = dict(sealed.headers)
    demanded = ["digest", "x-request-id", "(request-target)"]

    def verify() -> object:
        key = key_of(headers["TPP-Signature-Certificate"])
        pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
        verifier = httpsig.HeaderVerifier(
            headers, pem, required_headers=demanded, method=sealed.method, path=sealed.target, sign_header="Signature"
        )
        if not verifier.verify() or headers["Digest"] != make_digest(sealed.body):
            raise RuntimeError("httpsig does not verify what it should")
        return verifier

    return verify
