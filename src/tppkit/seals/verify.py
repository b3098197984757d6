"""Verify a sealed request: that this organisation signed exactly this body for exactly this target.

The same function serves the bank's door (at = now) and the auditor's desk years later (at = the time of receipt).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple

from tppkit._clock import as_utc
from tppkit._encoding import decode_base64
from tppkit.certificates import EidasCertificate, Use
from tppkit.errors import FormatError, SignatureRejected
from tppkit.httpsig.algorithms import Verify, make_verifiers, verify_signature
from tppkit.httpsig.cavage import (
    MAX_HEADER_LENGTH,
    SignatureParameters,
    make_signing_string,
    parse_signature_header,
)
from tppkit.httpsig.digest import verify_digest
from tppkit.httpsig.message import REQUEST_TARGET, Message, message_components
from tppkit.seals.key_id import verify_key_id
from tppkit.seals.profiles import PSD2_V1, SealProfile
from tppkit.trust import PathVerifier, TrustedPath, Window

MAX_CERTIFICATE_HEADER = 16 * 1024
_REMEMBERED = 256
_LAST = ',signature="'

# A request has these at most once (RFC 9110 section 5.3 allows lists, these are none); two of them are two readings.
_SINGLETONS = ("digest", "signature", "x-request-id", "content-type", "content-length", "host", "date", "authorization")


@dataclass(frozen=True, slots=True)
class _Seal:
    certificate: EidasCertificate
    path: TrustedPath
    window: Window
    verifiers: Mapping[str, Verify]


class SealPolicy:
    """What a relying party demands of a seal.

    It remembers what it has verified (at most 256 certificates, and 256 ways of naming and covering): a provider sends the
    same certificate and the same parameters, all but the signature, with every request. Nothing is remembered before a
    signature under it has been verified, and nothing is believed outside the window of its chain, which news of a revocation
    closes.

    Args:
        paths: believes certificates.
        profile: the dialect.
    """

    def __init__(self, paths: PathVerifier, *, profile: SealProfile = PSD2_V1) -> None:
        self.paths = paths
        self.profile = profile
        self._certificate_header = profile.certificate_header.lower()
        self._singletons = frozenset({*_SINGLETONS, self._certificate_header, *profile.covered})
        self._required = frozenset(profile.covered)
        self._sealing = frozenset({"digest", "signature", self._certificate_header})
        self._seals: dict[str, _Seal] = {}
        self._parameters: dict[tuple[str, str], SignatureParameters] = {}

    def _seal(self, header: str, at: datetime, intermediates: Sequence[EidasCertificate]) -> _Seal:
        """The seal certificate in a header, when it fits the profile and is believed at the time."""
        seal = self._seals.get(header)
        if seal is not None and seal.window.not_before <= at <= seal.window.not_after:
            return seal
        certificate = _read_certificate(header)
        path = self.paths.verify_use(certificate, as_=Use.QSEALC, at=at, intermediates=intermediates)
        return _Seal(
            certificate,
            path,
            path.window,
            make_verifiers(certificate.public_key, pss_only=certificate.key.type == "rsa-pss"),
        )

    def _remember(self, certificate_header: str, seal: _Seal, head: str, parameters: SignatureParameters) -> None:
        if len(self._seals) >= _REMEMBERED or len(self._parameters) >= _REMEMBERED:
            # Together: a text that stays behind without its certificate would never have it remembered again.
            self._seals.clear()
            self._parameters.clear()
        self._seals[certificate_header] = seal
        if head:
            self._parameters[head, certificate_header] = parameters


class VerifiedRequest(NamedTuple):
    """What was proven about a request. A handler works on this and on nothing else of the request.

    A named tuple, because one is made for every request and this is the cheapest value.

    Attributes:
        parameters: what the Signature header said.
        signing_string: the bytes that were signed.
        seal: the QSealC, which fits its profile and is believed at `at`.
        chain: the seal first, the root last.
        qwac: the certificate whose organisation the seal has, or None when the caller had none to compare with.
        at: the time of judgement, aware UTC.
        profile: name of the seal profile.
        unverified_message: the whole request, with headers that nobody signed.
    """

    parameters: SignatureParameters
    signing_string: bytes
    seal: EidasCertificate
    chain: tuple[EidasCertificate, ...]
    qwac: EidasCertificate | None
    at: datetime
    profile: str
    unverified_message: Message

    @property
    def covered(self) -> Mapping[str, str]:
        """The covered headers' values by lower-case name; a header that nobody signed is not in it."""
        names = (name for name in self.parameters.headers if name != REQUEST_TARGET)
        values, _ = message_components(self.unverified_message)
        return MappingProxyType({name: values[name] for name in names})

    @property
    def method(self) -> str:
        """The covered method, as on the wire."""
        return self.unverified_message.method

    @property
    def target(self) -> str:
        """The covered path and query, as on the wire."""
        return self.unverified_message.target

    @property
    def body(self) -> bytes:
        """The exact bytes whose hash was covered."""
        return self.unverified_message.body

    @property
    def organization_identifier(self) -> str:
        """The sealing organisation's organizationIdentifier."""
        identifier = self.seal.organization_identifier
        return identifier.text if identifier else ""

    @property
    def request_id(self) -> str:
        """The covered X-Request-ID."""
        return self.covered["x-request-id"]


def verify_request(
    message: Message,
    *,
    qwac: EidasCertificate | None,
    at: datetime,
    policy: SealPolicy,
    intermediates: Sequence[EidasCertificate] = (),
) -> VerifiedRequest:
    """Verify Digest and Signature of a provider's request.

    Args:
        message: the request as received; the body is hashed as raw bytes.
        qwac: the believed certificate of the TLS connection, whose organisation must be the seal's. None only where there
            was no connection (a file on a desk); then the result says so.
        at: the time to judge at, aware. Pass the receipt time when checking a kept request.
        policy: the anchors and the dialect.
        intermediates: authorities that may stand above the seal, for example those kept with it; believed only through an
            anchor.

    Returns:
        What was proven.

    Raises:
        FormatError: a header cannot be parsed: `header.duplicate`, `header.control-character`, `signature.malformed`,
            `signature.duplicate-parameter`, `signature.missing-parameter`, `signature.covered-names`, `key-id.malformed`,
            `digest.malformed`, `digest.duplicate-algorithm`, `digest.unsupported`, `base64.*`, `message.malformed`; or the
            certificate cannot: `certificate.malformed`, `certificate.too-large`, `certificate.key-unreadable`, `der.*`,
            `key.unsupported`, `key.weak`.
        SignatureRejected: `signature.missing`, `signature.uncovered`, `signature.header-absent`, `digest.mismatch`,
            `key-id.mismatch`, `signature.algorithm`, `signature.invalid`, `seal.other-organisation`.
        CertificateRejected: the seal certificate: `certificate.*`, `qcstatements.*`, `organization-identifier.missing`,
            `trust.no-path`, `path.*`, `key.*`, `revocation.*`.
        ConfigurationError: `time.naive`, `at` has no time zone.

    Source: PSD2 document, part A section 5 rule 4; draft-cavage-http-signatures-10.
    """
    # 1. Collect the headers; one that must be single is single.
    # 2. Parse the Signature header strictly.
    # 3. It covers what the profile demands.
    # 4. The Digest fits the raw body.
    # 5. The certificate fits the seal profile, is the one that keyId names, and is believed at the time.
    # 6. The signature fits the signing string under the certificate's key.
    # 7. Seal and QWAC are the same organisation's.
    at = as_utc(at)
    values = _collect(message, policy)  # 1
    certificate_header = values[policy._certificate_header]
    head, parameters, new = _read_signature(values["signature"], certificate_header, policy)  # 2
    if new:
        _check_coverage(parameters, policy)  # 3
    verify_digest(values["digest"], message.body)  # 4
    seal = policy._seal(certificate_header, at, intermediates)  # 5
    if new:
        verify_key_id(parameters.key_id, seal.certificate)
    if not policy._singletons.issuperset(parameters.headers):
        values, _ = message_components(message)
    signing_string = make_signing_string(parameters.headers, values)  # 6
    verify_signature(seal.verifiers, parameters.algorithm, parameters.signature, signing_string)
    if new or policy._seals.get(certificate_header) is not seal:
        policy._remember(certificate_header, seal, head, parameters)
    if qwac is not None:
        _check_organisation(seal.certificate, qwac)  # 7
    return VerifiedRequest(
        parameters, signing_string, seal.certificate, seal.path.chain, qwac, at, policy.profile.name, message,
    )  # fmt: skip


def _read_signature(value: str, certificate_header: str, policy: SealPolicy) -> tuple[str, SignatureParameters, bool]:
    """The text before `signature`, the parameters, and whether they are new.

    The text is remembered, and a remembered one used, only where the quoted `signature` is the last thing in the header: so
    a header with a remembered text and another signature reads exactly as the strict reader would read it. The strict
    reader names every fault.
    """
    head, _, last = value.rpartition(_LAST)
    encoded, quote, rest = last.partition('"')
    is_last = quote and not rest and len(value) <= MAX_HEADER_LENGTH
    known = policy._parameters.get((head, certificate_header)) if is_last else None
    if known is not None:
        try:
            signature = decode_base64(encoded, what="the signature parameter")
        except FormatError:
            pass
        else:
            return head, SignatureParameters(known.key_id, known.algorithm, known.headers, signature), False
    return head if is_last else "", parse_signature_header(value), True


def _collect(message: Message, policy: SealPolicy) -> dict[str, str]:
    values, doubled = message_components(message, only=policy._singletons)
    if doubled:
        raise FormatError("header.duplicate", f"the {doubled[0]} header stands more than once")
    if not policy._sealing.issubset(values):
        missing = ", no ".join(sorted(policy._sealing.difference(values)))
        raise SignatureRejected(
            "signature.missing", f"the request has no {missing} header", clause="PSD2 document A.5 rule 4"
        )
    return values


def _check_coverage(parameters: SignatureParameters, policy: SealPolicy) -> None:
    missing = policy._required.difference(parameters.headers)
    if missing:
        raise SignatureRejected(
            "signature.uncovered",
            f"the signature does not cover {', '.join(sorted(missing))} (it covers {', '.join(parameters.headers)[:200]})",
            clause="PSD2 document A.4",
        )


def _read_certificate(header: str) -> EidasCertificate:
    if len(header) > MAX_CERTIFICATE_HEADER:
        raise FormatError("certificate.too-large", f"a certificate header of {len(header)} characters is too long")
    return EidasCertificate.from_der(decode_base64(header, what="the certificate header"))


def _check_organisation(seal: EidasCertificate, qwac: EidasCertificate) -> None:
    ours, theirs = seal.organization, qwac.organization
    if ours is None or theirs is None or ours.text != theirs.text:
        raise SignatureRejected(
            "seal.other-organisation",
            f"the seal belongs to {ours}, the TLS certificate to {theirs}",
            clause="PSD2 document A.5 rule 4",
        )
