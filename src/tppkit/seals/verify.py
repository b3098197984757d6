"""Verify a sealed request: that this organisation signed exactly this body for exactly this target.

The same function serves a bank's gate (`at` is now) and an auditor years later (`at` is the time of receipt). A server that reads
bodies in chunks verifies the head first and then checks the body against its digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, TypeVar

from tppkit._clock import as_utc
from tppkit._encoding import encode_base64url, shown
from tppkit.certificates import EidasCertificate
from tppkit.errors import ConfigurationError, FormatError, SignatureRejected
from tppkit.httpsig.algorithms import verify_signature
from tppkit.httpsig.cavage import (
    AUTHORIZATION_SCHEME,
    SignatureParameters,
    parse_signature_header,
    time_components,
)
from tppkit.httpsig.components import Component, name_of_component
from tppkit.httpsig.http_date import parse_http_date
from tppkit.httpsig.jws import make_jws_payload, make_jws_signing_input, parse_detached_jws
from tppkit.httpsig.rfc9421 import make_signature_base, parse_signature_fields, request_values
from tppkit.httpsig.signing_string import make_signing_string, message_components
from tppkit.httpsig.times import verify_times
from tppkit.message import Message
from tppkit.seals.advice import coverage_advice, digest_fault, signature_form, with_form
from tppkit.seals.certificate_header import read_certificate
from tppkit.seals.key_id import KeyIdForm, verify_key_id
from tppkit.seals.policy import Demands, SealPolicy, TrustedSeal
from tppkit.seals.private_parameters import (
    private_names,
    require_content,
    require_private_names,
    verify_private_texts,
)
from tppkit.seals.profile import Format, SealProfile
from tppkit.seals.verified import VerifiedHead, VerifiedRequest, read_digest, require_body

V = TypeVar("V", bound=VerifiedHead)


def verify_request(
    message: Message,
    *,
    qwac: EidasCertificate | None,
    at: datetime,
    policy: SealPolicy,
    intermediates: Sequence[EidasCertificate] = (),
) -> VerifiedRequest:
    """Verify Digest and Signature of a provider's request.

        verified = verify_request(received, qwac=qwac, at=utc_now(), policy=policy)
        verified.organization_identifier, verified.body

    Args:
        message: the request as received; the body is hashed as raw bytes.
        qwac: the trusted certificate of the TLS connection, which must be of the seal's organisation. None only if there was no
            connection (a stored request); then `VerifiedRequest.qwac` is None.
        at: the time to judge at, aware. Pass the receipt time when checking a kept request.
        policy: the anchors and the dialect.
        intermediates: possible authorities of the seal, for example those stored with it; trusted only through an anchor.

    Raises:
        FormatError: a header cannot be parsed: `header.duplicate`, `header.control-character`, `header.date`,
            `signature.malformed`, `signature.duplicate-parameter`, `signature.missing-parameter`, `signature.covered-names`,
            `signature.time-not-allowed`, `key-id.malformed`, `digest.malformed`, `digest.duplicate-algorithm`,
            `digest.unsupported`, `base64.*`, `message.malformed`; or the certificate cannot: `certificate.malformed`,
            `certificate.too-large`, `certificate.key-unreadable`, `der.*`, `key.unsupported`, `key.weak`,
            `profile.key`.
            In RFC 9421 also `structured.*`, `signature.label`, `signature.unsupported-component`; in a JWS `jws.*`, `json.*`.
        SignatureRejected: `signature.missing`, `signature.uncovered`, `signature.other-coverage`, `signature.header-absent`,
            `signature.created`, `signature.expired`, `signature.lifetime`, `digest.algorithm`, `digest.mismatch`,
            `key-id.mismatch`, `signature.algorithm`, `signature.invalid`, `seal.other-organisation`, `seal.unknown-certificate`,
            `signature.private-parameter`.
        CertificateRejected: the seal certificate: `certificate.*`, `qcstatements.*`, `organization-identifier.*`,
            `trust.no-path`, `path.*`, `key.*`, `revocation.*`.
        ConfigurationError: `time.naive`, `at` has no time zone.

    Source: PSD2 document, part A section 5 rule 4; draft-cavage-http-signatures-10 and -12; RFC 9421; RFC 7797.
    """
    verified = _verify_head(VerifiedRequest, message, qwac, as_utc(at), policy, intermediates)
    if verified.date_fault is not None:  # 7
        raise verified.date_fault
    if not policy.profile.covers_body:  # 8
        require_body(verified.digest, message, policy.profile)
    return verified


def verify_request_head(
    message: Message,
    *,
    qwac: EidasCertificate | None,
    at: datetime,
    policy: SealPolicy,
    intermediates: Sequence[EidasCertificate] = (),
    allow_old_date: bool = False,
) -> VerifiedHead:
    """Verify a request except its body, which may arrive later; see `VerifiedHead.verify_body`.

        head = verify_request_head(received, qwac=qwac, at=utc_now(), policy=policy)
        verified = head.verify_body(body)

    Args:
        message: the request as received; its body is ignored.
        qwac: the trusted certificate of the TLS connection, or None if there was no connection.
        at: the time to judge at, aware UTC.
        policy: the anchors and the dialect.
        intermediates: possible authorities of the seal; trusted only through an anchor.
        allow_old_date: report a covered Date that is too old or too new as `VerifiedHead.date_fault`. For servers that look the request id
            up, because a repetition of an answered request has the Date of the first.

    Raises:
        The errors of `verify_request`, except those about the body.
        ConfigurationError: `seal.body-needed`, the profile signs the body itself; pass whole requests to `verify_request`.
    """
    if policy.profile.covers_body:
        raise ConfigurationError(
            "seal.body-needed",
            f"a seal of the profile {policy.profile.name} is over the body itself, so it cannot be verified before the body arrives, "
            "nor after it was redacted; pass whole requests to verify_request",
        )
    head = _verify_head(VerifiedHead, message._replace(body=b""), qwac, as_utc(at), policy, intermediates)
    if head.date_fault is not None and not allow_old_date:
        raise head.date_fault
    if head.digest is not None:
        read_digest(head.digest, policy.profile)
    return head


class ReadSeal(NamedTuple):
    """The parsed seal of a request.

    Attributes:
        parameters: in the form of a Signature header; `headers` are the covered names, `key_id` is empty if the seal has none.
        signing_string: the signed bytes.
        certificates: DER of the certificates in the seal itself, the signer's first.
        texts: the private parameters of a JWS, except the time.
    """

    parameters: SignatureParameters
    signing_string: bytes
    certificates: tuple[bytes, ...] = ()
    texts: tuple[tuple[str, str], ...] = ()


def _verify_head(
    kind: type[V],
    message: Message,
    qwac: EidasCertificate | None,
    at: datetime,
    policy: SealPolicy,
    intermediates: Sequence[EidasCertificate],
) -> V:
    # The steps are the same for every format; only the parser differs.
    # 1. Collect the headers; reject duplicates of single ones.
    # 2. Parse the seal strictly.
    # 3. It covers what the profile requires, and only what it allows; the digest algorithm is allowed.
    # 4. The certificate fits the seal profile, is the one that keyId names, and is trusted at the time.
    # 5. The signature fits the signing string under the certificate's key, and its times are within their limits.
    # 6. Seal and QWAC are of the same organisation, which the relying party accepts.
    # 7. (in the callers) A covered Date is close to the time of judgement.
    # 8. (in the callers) The digest fits the raw body.
    values = _collect(message, policy.demands, policy.profile.prefixes)  # 1
    read = read_seal(message, values, policy)  # 2
    seal, digest = judge_seal(read, values, qwac=qwac, at=at, policy=policy, intermediates=intermediates)
    covered = read.parameters.headers
    date_fault = find_date_fault(values["date"], at, policy) if "date" in covered else None  # 7
    return kind(
        read.parameters, read.signing_string, seal.certificate, seal.path, qwac, at, policy.profile, digest, message, date_fault
    )  # fmt: skip


def judge_seal(
    read: ReadSeal, values: Mapping[str, str], *, qwac: EidasCertificate | None, at: datetime, policy: SealPolicy,
    intermediates: Sequence[EidasCertificate] = (),
) -> tuple[TrustedSeal, str | None]:  # fmt: skip
    """Do steps 3 to 6 of a verification: coverage, certificate, signature and organisation.

    Args:
        read: the parsed seal.
        values: the fields of the message by lower-case name.
        qwac: see `verify_request`.
        at: the time to judge at, aware UTC.
        policy: the anchors and the dialect.
        intermediates: possible authorities of the seal.

    Returns:
        The trusted seal, and the value of the digest header.

    Raises:
        The errors of `verify_request`, except those about the date and the body.
    """
    demands, profile = policy.demands, policy.profile
    parameters, signing_string, certificates, _ = read
    _check_coverage(parameters.headers, values, demands, profile)  # 3
    digest = None if profile.covers_body else values.get(profile.digest_name)
    if digest is not None and ("," in digest or not digest.startswith(demands.digests)):
        fault = digest_fault(digest, profile)
        if fault:
            raise SignatureRejected("digest.algorithm", fault)
    named, known = values.get(demands.certificate_header or ""), None  # 4
    if named is None:
        named, known = _find_certificate(read, policy)
    seal = remembered = policy.remembered.get(named)
    if seal is None or not seal.window.not_before <= at <= seal.window.not_after:
        seal = _trusted_seal(read, named if known is None else known, at, policy, intermediates)
    key_id = parameters.key_id
    if key_id != seal.key_id and (key_id or not certificates):
        verify_key_id(key_id, seal.certificate, style=profile.key_id)
    if policy.certificates:
        _check_known(key_id, seal.certificate, policy)
    if profile.private:
        verify_private_texts(read.texts, seal.certificate, profile=profile)
    _check_times(parameters, at, policy)  # 5
    verify_signature(seal.verifiers, parameters.algorithm, parameters.signature, signing_string)
    if qwac is not None and qwac is not seal.qwac:  # 6
        _check_organisation(seal.certificate, qwac)
        policy.organizations.require(qwac)
        seal = seal._replace(qwac=qwac)
    if key_id != seal.key_id:
        seal = seal._replace(key_id=key_id)
    if seal is not remembered:
        policy.remembered.put(named, seal)
    return seal, digest


def read_seal(message: Message, values: Mapping[str, str], policy: SealPolicy) -> ReadSeal:
    """Parse the seal in the profile's format.

    Args:
        message: the request.
        values: its fields by lower-case name, including those of the seal.
        policy: the dialect, and the origin of requests.

    Raises:
        FormatError: see the parsers of the formats in `httpsig`.
        SignatureRejected: `signature.missing`, `signature.header-absent`; `signature.algorithm`, none is named.
    """
    if policy.profile.format is Format.JWS:
        return _read_jws(message, values, policy)
    if policy.profile.format is Format.RFC9421:
        return read_rfc9421(values, policy, value=request_values(message, origin=policy.origin))
    return read_cavage(values, policy)


def read_cavage(values: Mapping[str, str], policy: SealPolicy) -> ReadSeal:
    """Parse a seal in draft-cavage. Arguments and errors are those of `read_seal`."""
    value = values[policy.demands.carrier]
    if policy.profile.carrier == "Authorization":
        value = _after_scheme(value)
    try:
        parameters = parse_signature_header(value, reading=policy.profile.reading)
    except FormatError as e:
        raise with_form(e, signature_form(policy.profile), policy.profile) from e
    covered = parameters.headers
    if parameters.created is not None or parameters.expires is not None:
        values = {**values, **time_components(parameters)}
    return ReadSeal(parameters, make_signing_string(covered, values))


def _after_scheme(value: str) -> str:
    scheme = value[: len(AUTHORIZATION_SCHEME)]
    if scheme.lower() != AUTHORIZATION_SCHEME.lower():
        raise SignatureRejected("signature.missing", "the Authorization header does not begin with Signature")
    return value[len(scheme) :]


def read_rfc9421(values: Mapping[str, str], policy: SealPolicy, *, value: Callable[[Component], str]) -> ReadSeal:
    """Parse a seal in RFC 9421. Arguments and errors are those of `read_seal`; `value` returns the value of a component."""
    profile = policy.profile
    read, signature = parse_signature_fields(values["signature-input"], values["signature"], label=profile.label)
    if read.algorithm is None:
        raise SignatureRejected("signature.algorithm", "the signature has no alg, which this profile requires")
    if profile.expires_after is not None and read.expires is None:
        raise FormatError("signature.missing-parameter", "the signature has no expires, which this profile requires")
    if any(component.name == "date" and component.parameters for component in read.components):
        raise FormatError(
            "signature.unsupported-component", "the Date is covered with parameters, so its time is not signed"
        )
    covered = tuple(map(name_of_component, read.components))
    parameters = SignatureParameters(
        read.key_id or "", read.algorithm, covered, signature, created=read.created, expires=read.expires
    )
    return ReadSeal(parameters, make_signature_base(read, value))


def _read_jws(message: Message, values: Mapping[str, str], policy: SealPolicy) -> ReadSeal:
    profile = policy.profile
    if profile.covers_body:
        require_content(message.body, profile)
    header, signature = parse_detached_jws(values[policy.demands.carrier], private=private_names(profile))
    require_private_names(header, profile)
    key_id = header.key_id
    if profile.key_id.form is KeyIdForm.THUMBPRINT:
        if header.certificate_sha256 is None:
            raise FormatError(
                "signature.missing-parameter", "the signature has no x5t#S256, which this profile requires"
            )
        key_id = encode_base64url(header.certificate_sha256)
    parameters = SignatureParameters(key_id or "", header.algorithm, header.covered, signature, created=header.created)
    in_seal = header.certificates if profile.sends_x5c else ()
    signing_input = make_jws_signing_input(header, make_jws_payload(header, message))
    return ReadSeal(parameters, signing_input, in_seal, header.texts)


def _find_certificate(read: ReadSeal, policy: SealPolicy) -> tuple[str, EidasCertificate | None]:
    """Find a certificate that is not in a header: return its key in the cache, and the certificate if the policy has it."""
    if policy.profile.sends_x5c:
        if not read.certificates:
            raise SignatureRejected("signature.missing", "the signature has no certificate in x5c")
        return hashlib.sha256(read.certificates[0]).hexdigest(), None
    key_id = read.parameters.key_id
    certificate = policy.certificates.get(key_id)
    if certificate is None:
        raise SignatureRejected(
            "seal.unknown-certificate", f"the policy has no certificate for the keyId {shown(key_id)}; none is fetched"
        )
    return certificate.sha256, certificate


def _trusted_seal(
    read: ReadSeal,
    found: EidasCertificate | str,
    at: datetime,
    policy: SealPolicy,
    intermediates: Sequence[EidasCertificate],
) -> TrustedSeal:
    """Require trust in the certificate of a seal: the given one, else the one in the seal, else the one in the header."""
    sent = [EidasCertificate.from_der(der) for der in read.certificates]
    if isinstance(found, str):
        found = sent[0] if sent else _read_certificate(found, policy.profile)
    return policy.trust(found, at=at, intermediates=(*sent[1:], *intermediates))


def _read_certificate(value: str, profile: SealProfile) -> EidasCertificate:
    try:
        return read_certificate(value, profile.certificate_form)
    except FormatError as e:
        raise with_form(e, f"{profile.certificate_header}: {profile.certificate_form.value}", profile) from e


def _check_known(key_id: str, certificate: EidasCertificate, policy: SealPolicy) -> None:
    """Reject a certificate that differs from the one that the policy has for its keyId."""
    known = policy.certificates.get(key_id)
    if known is not None and known.der != certificate.der:
        raise SignatureRejected(
            "key-id.mismatch",
            f"the certificate of {certificate.subject} was sent, but the policy has for the keyId {shown(key_id)} "
            f"that of {known.subject} with the serial {known.serial:X}",
        )


def _collect(message: Message, demands: Demands, prefixes: tuple[str, ...]) -> dict[str, str]:
    values, doubled = message_components(message)
    for name in doubled:
        if name in demands.singletons or name.startswith(prefixes):
            raise FormatError("header.duplicate", f"the {name} header appears more than once")
    if not demands.sealing.issubset(values):
        missing = ", no ".join(sorted(demands.sealing.difference(values)))
        raise SignatureRejected(
            "signature.missing", f"the request has no {missing} header", clause="PSD2 document A.5 rule 4"
        )
    return values


def _check_coverage(
    covered: tuple[str, ...], values: Mapping[str, str], demands: Demands, profile: SealProfile
) -> None:
    demanded = demands.covered
    if demands.if_present:
        demanded |= demands.if_present.intersection(values)
    if profile.prefixes:
        demanded |= {name for name in values if name.startswith(profile.prefixes)}
    if missing := demanded.difference(covered):
        raise SignatureRejected(
            "signature.uncovered",
            f"the signature does not cover {', '.join(sorted(missing))}; {coverage_advice(demanded, profile)} "
            f"(it covers {', '.join(covered)[:200]})",
            clause=profile.source,
        )
    if demands.allowed is not None:
        others = [n for n in covered if n not in demands.allowed and not n.startswith(profile.prefixes)]
        if others:
            raise SignatureRejected(
                "signature.other-coverage",
                f"the signature covers {', '.join(others)[:200]}; {coverage_advice(demanded, profile)}",
                clause=profile.source,
            )


def find_date_fault(value: str, at: datetime, policy: SealPolicy) -> SignatureRejected | None:
    """Return why a covered Date is not close to the time of judgement, or None."""
    date = parse_http_date(value)
    if abs(at - date) <= policy.clock_skew:
        return None
    code = "signature.created" if date > at else "signature.expired"
    return SignatureRejected(code, f"the Date is {value}, more than {policy.clock_skew} from the time of judgement")


def _check_times(parameters: SignatureParameters, at: datetime, policy: SealPolicy) -> None:
    """Check the times in the parameters of the seal: of signing, and of the end of validity."""
    profile = policy.profile
    if parameters.created is not None or parameters.expires is not None or profile.max_age is not None:
        verify_times(
            parameters.created,
            parameters.expires,
            at=at,
            skew=policy.clock_skew,
            max_age=profile.max_age,
            lifetime=profile.expires_after,
        )


def _check_organisation(seal: EidasCertificate, qwac: EidasCertificate) -> None:
    ours, theirs = seal.organization, qwac.organization
    if ours != theirs:  # never both None: `SealPolicy.trust` requires one of the seal
        raise SignatureRejected(
            "seal.other-organisation",
            f"the seal belongs to {ours}, the TLS certificate to {theirs}",
            clause="PSD2 document A.5 rule 4",
        )
