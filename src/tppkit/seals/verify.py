"""Verify a sealed request: that this organisation signed exactly this body for exactly this target.

The same function serves the bank's door (at = now) and the auditor's desk years later (at = the time of receipt). A server
that reads bodies in pieces verifies the head first and takes the body under its digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime

from tppkit._clock import as_utc
from tppkit._encoding import decode_base64, shown
from tppkit.certificates import EidasCertificate
from tppkit.errors import FormatError, SignatureRejected
from tppkit.httpsig import times
from tppkit.httpsig.algorithms import verify_signature
from tppkit.httpsig.cavage import (
    AUTHORIZATION_SCHEME,
    MAX_HEADER_LENGTH,
    SignatureParameters,
    make_signing_string,
    parse_signature_header,
    time_components,
    verify_times,
)
from tppkit.httpsig.content_digest import verify_content_digest
from tppkit.httpsig.digest import verify_digest
from tppkit.httpsig.http_date import parse_http_date
from tppkit.httpsig.message import Message, message_components
from tppkit.seals.certificate_header import read_certificate
from tppkit.seals.formats import ReadSeal, read_seal
from tppkit.seals.key_id import verify_key_id
from tppkit.seals.policy import Demands, SealPolicy
from tppkit.seals.profile import EmptyBody, Format, SealProfile
from tppkit.seals.verified import VerifiedHead, VerifiedRequest, require_no_body

_LAST = ',signature="'
_new = tuple.__new__  # what a named tuple's own constructor calls, without the call around it


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
        FormatError: a header cannot be parsed: `header.duplicate`, `header.control-character`, `header.date`,
            `signature.malformed`, `signature.duplicate-parameter`, `signature.missing-parameter`, `signature.covered-names`,
            `signature.time-not-allowed`, `key-id.malformed`, `digest.malformed`, `digest.duplicate-algorithm`,
            `digest.unsupported`, `base64.*`, `message.malformed`; or the certificate cannot: `certificate.malformed`,
            `certificate.too-large`, `certificate.key-unreadable`, `der.*`, `key.unsupported`, `key.weak`,
            `profile.key`.
            In RFC 9421 also `structured.*`, `signature.label`, `signature.unsupported-component`; in a JWS `jws.*`, `json.*`.
        SignatureRejected: `signature.missing`, `signature.uncovered`, `signature.other-coverage`, `signature.header-absent`,
            `signature.created`, `signature.expired`, `digest.mismatch`, `key-id.mismatch`, `signature.algorithm`,
            `signature.invalid`, `seal.other-organisation`, `seal.unknown-certificate`.
        CertificateRejected: the seal certificate: `certificate.*`, `qcstatements.*`, `organization-identifier.missing`,
            `trust.no-path`, `path.*`, `key.*`, `revocation.*`.
        ConfigurationError: `time.naive`, `at` has no time zone.

    Source: PSD2 document, part A section 5 rule 4; draft-cavage-http-signatures-10 and -12; RFC 9421; RFC 7797.
    """
    proven, digest = _verify_head(message, qwac, as_utc(at), policy, intermediates)
    _verify_body(digest, message.body, policy.profile)  # 7
    return _new(VerifiedRequest, proven)


def verify_request_head(
    message: Message,
    *,
    qwac: EidasCertificate | None,
    at: datetime,
    policy: SealPolicy,
    intermediates: Sequence[EidasCertificate] = (),
) -> VerifiedHead:
    """Verify all of a request but its body, which need not have arrived; `VerifiedHead.receive_body` takes that.

    Args:
        message: the request as received, whatever its body.
        qwac: as for `verify_request`.
        at: as for `verify_request`.
        policy: as for `verify_request`.
        intermediates: as for `verify_request`.

    Raises:
        As `verify_request`, but for `digest.*`.
    """
    proven, _ = _verify_head(message._replace(body=b""), qwac, as_utc(at), policy, intermediates)
    return _new(VerifiedHead, proven)


_Proven = tuple[object, ...]  # the fields of a verified request, in order


def _verify_head(
    message: Message,
    qwac: EidasCertificate | None,
    at: datetime,
    policy: SealPolicy,
    intermediates: Sequence[EidasCertificate],
) -> tuple[_Proven, str | None]:
    # 1. Collect the headers; one that must be single is single.
    # 2. Parse the signature strictly.
    # 3. It covers what the profile demands, and nothing that it does not allow.
    # 4. The certificate fits the seal profile, is the one that keyId names, and is believed at the time.
    # 5. The signature fits the signing string under the certificate's key, and so do its times.
    # 6. Seal and QWAC are the same organisation's.
    # 7. (in the callers) The digest fits the raw body.
    demands, memory = policy.demands, policy.memory
    values = _collect(message, demands)  # 1
    if policy.profile.format is not Format.CAVAGE:
        return _verify_other_head(message, values, qwac, at, policy, intermediates)
    named = None if demands.certificate_header is None else values[demands.certificate_header]
    head, parameters, new = _read_signature(values[demands.carrier], named, policy)  # 2
    _check_coverage(parameters, new, values, demands)  # 3
    certificate = None
    if named is None:
        certificate = _known_certificate(parameters.key_id, policy)
        named = certificate.sha256
    seal = memory.seals.get(named)  # 4
    if seal is None or not seal.window.not_before <= at <= seal.window.not_after:
        certificate = certificate or read_certificate(named, policy.profile.certificate_form)
        seal = policy.believe(certificate, at=at, intermediates=intermediates)
    if new:
        verify_key_id(parameters.key_id, seal.certificate, style=policy.profile.key_id)
    if demands.watched is not None and not demands.watched.issuperset(parameters.headers):
        values, _ = message_components(message)
    if parameters.created is not None or parameters.expires is not None:
        verify_times(parameters, at=at, skew=policy.clock_skew)
        values |= time_components(parameters)
    signing_string = make_signing_string(parameters.headers, values)  # 5
    if demands.dated:
        _check_date(values["date"], at, policy)
    verify_signature(seal.verifiers, parameters.algorithm, parameters.signature, signing_string)
    if new or memory.seals.get(named) is not seal:
        memory.keep(named, seal, head, parameters)
    if qwac is not None:
        _check_organisation(seal.certificate, qwac)  # 6
    return (
        (parameters, signing_string, seal.certificate, seal.path.chain, qwac, at, policy.profile, message),
        values.get(policy.profile.digest_name),
    )


def _verify_other_head(
    message: Message,
    values: Mapping[str, str],
    qwac: EidasCertificate | None,
    at: datetime,
    policy: SealPolicy,
    intermediates: Sequence[EidasCertificate],
) -> tuple[_Proven, str | None]:
    """The same steps for a seal in another format than draft-cavage."""
    profile, memory = policy.profile, policy.memory
    read = read_seal(message, values, profile=profile, origin=policy.origin)  # 2
    parameters = read.parameters
    _check_coverage(parameters, True, values, policy.demands)  # 3
    named, certificate = _find_certificate(read, values, policy)  # 4
    seal = memory.seals.get(named)
    if seal is None or not seal.window.not_before <= at <= seal.window.not_after:
        sent = [EidasCertificate.from_der(der) for der in read.certificates]
        certificate = certificate or (sent[0] if sent else read_certificate(named, profile.certificate_form))
        seal = policy.believe(certificate, at=at, intermediates=(*sent[1:], *intermediates))
    if parameters.key_id or not read.certificates:
        verify_key_id(parameters.key_id, seal.certificate, style=profile.key_id)
    times.verify_times(
        parameters.created, parameters.expires, at=at, skew=policy.clock_skew, max_age=profile.max_age
    )  # 5
    verify_signature(seal.verifiers, parameters.algorithm, parameters.signature, read.signing_string)
    if memory.seals.get(named) is not seal:
        memory.keep(named, seal, "", parameters)
    if qwac is not None:
        _check_organisation(seal.certificate, qwac)  # 6
    return (
        (parameters, read.signing_string, seal.certificate, seal.path.chain, qwac, at, profile, message),
        values.get(profile.digest_name),
    )


def _find_certificate(
    read: ReadSeal, values: Mapping[str, str], policy: SealPolicy
) -> tuple[str, EidasCertificate | None]:
    """By what the memory knows the certificate of a seal, and the certificate where it was known before the request."""
    if policy.profile.sends_x5c:
        if not read.certificates:
            raise SignatureRejected("signature.missing", "the signature carries no certificate in x5c")
        return hashlib.sha256(read.certificates[0]).hexdigest(), None
    header = policy.demands.certificate_header
    if header is not None:
        return values[header], None
    certificate = _known_certificate(read.parameters.key_id, policy)
    return certificate.sha256, certificate


def _collect(message: Message, demands: Demands) -> dict[str, str]:
    values, doubled = message_components(message, only=demands.watched)
    if doubled:
        for name in doubled:
            if name in demands.singletons or name.startswith(demands.prefixes):
                raise FormatError("header.duplicate", f"the {name} header stands more than once")
    if not demands.sealing.issubset(values):
        missing = ", no ".join(sorted(demands.sealing.difference(values)))
        raise SignatureRejected(
            "signature.missing", f"the request has no {missing} header", clause="PSD2 document A.5 rule 4"
        )
    return values


def _read_signature(value: str, named: str | None, policy: SealPolicy) -> tuple[str, SignatureParameters, bool]:
    """The text before `signature`, the parameters, and whether they are new.

    The text is remembered, and a remembered one used, only where the quoted `signature` is the last thing in the header: so
    a header with a remembered text and another signature reads exactly as the strict reader would read it. The strict
    reader names every fault.
    """
    head, _, last = value.rpartition(_LAST)
    encoded, quote, rest = last.partition('"')
    is_last = quote and not rest and len(value) <= MAX_HEADER_LENGTH
    known = policy.memory.heads.get((head, named)) if is_last and named is not None else None
    if known is not None:
        try:
            signature = decode_base64(encoded, what="the signature parameter")
        except FormatError:
            pass
        else:
            return head, _new(SignatureParameters, (*known[:3], signature, None, None)), False
    if policy.profile.carrier == "Authorization":
        value = _after_scheme(value)
    parameters = parse_signature_header(value, reading=policy.profile.reading)
    # With a time in it no text comes again.
    timed = parameters.created is not None or parameters.expires is not None
    return head if is_last and not timed and named is not None else "", parameters, True


def _after_scheme(value: str) -> str:
    scheme = value[: len(AUTHORIZATION_SCHEME)]
    if scheme.lower() != AUTHORIZATION_SCHEME.lower():
        raise SignatureRejected("signature.missing", "the Authorization header does not begin with Signature")
    return value[len(scheme) :]


def _check_coverage(parameters: SignatureParameters, new: bool, values: Mapping[str, str], demands: Demands) -> None:
    """What every signature must cover is looked at once; what it must cover here depends on what the request has."""
    missing = demands.covered.difference(parameters.headers) if new else frozenset()
    if demands.if_present:
        missing |= demands.if_present.intersection(values).difference(parameters.headers)
    if demands.prefixes:
        missing |= {name for name in values if name.startswith(demands.prefixes) and name not in parameters.headers}
    if missing:
        raise SignatureRejected(
            "signature.uncovered",
            f"the signature does not cover {', '.join(sorted(missing))} (it covers {', '.join(parameters.headers)[:200]})",
            clause="PSD2 document A.4",
        )
    if new and demands.allowed is not None:
        others = [n for n in parameters.headers if n not in demands.allowed and not n.startswith(demands.prefixes)]
        if others:
            raise SignatureRejected(
                "signature.other-coverage",
                f"the signature covers {', '.join(others)[:200]}, which this profile does not allow",
            )


def _known_certificate(key_id: str, policy: SealPolicy) -> EidasCertificate:
    certificate = policy.certificates.get(key_id)
    if certificate is None:
        raise SignatureRejected(
            "seal.unknown-certificate", f"no certificate is known by the keyId {shown(key_id)}; none is fetched"
        )
    return certificate


def _check_date(value: str, at: datetime, policy: SealPolicy) -> None:
    date = parse_http_date(value)
    if abs(at - date) > policy.clock_skew:
        code = "signature.created" if date > at else "signature.expired"
        raise SignatureRejected(code, f"the Date is {value}, more than {policy.clock_skew} from the time of judgement")


def _verify_body(digest: str | None, body: bytes, profile: SealProfile) -> None:
    if digest is None:
        require_no_body(len(body))
    else:
        verify = verify_content_digest if profile.format is Format.RFC9421 else verify_digest
        verify(digest, body or (b"{}" if profile.empty_body is EmptyBody.BRACES else b""))


def _check_organisation(seal: EidasCertificate, qwac: EidasCertificate) -> None:
    ours, theirs = seal.organization, qwac.organization
    if ours is None or theirs is None or ours.text != theirs.text:
        raise SignatureRejected(
            "seal.other-organisation",
            f"the seal belongs to {ours}, the TLS certificate to {theirs}",
            clause="PSD2 document A.5 rule 4",
        )
