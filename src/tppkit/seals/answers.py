"""Seal the answers of a bank, and verify them: that this bank gave exactly this answer to exactly this request.

    sealed = sign_answer(answer, request=request, seal=Seal(certificate, signer, profile=ANSWER_PROFILES["rfc9421"]), at=utc_now())
    verified = verify_answer(received, request=sent, policy=SealPolicy(paths, profile=ANSWER_PROFILES["rfc9421"]), at=utc_now())

| | `rfc9421` | `cavage` |
|---|---|---|
| covers of the answer | status, body, Content-Type, Location, ASPSP-SCA-Approach | body, X-Request-ID, Date |
| covers of the request | method, path, query, X-Request-ID, digest of the body, its own seal | the X-Request-ID, which it repeats |
| does not prove | host and scheme, other headers | status, method, target, other headers; of an empty body only id and time |
| time | `created`, at most 5 minutes old, and the clock skew | Date, at most the clock skew from the time of judgement |

An answer to an unsealed request, or to one whose seal was rejected, covers what the bank received, which nobody has proven.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple

from tppkit._clock import as_utc
from tppkit._encoding import shown
from tppkit.certificates import EidasCertificate
from tppkit.errors import CertificateRejected, ConfigurationError, FormatError, LocalProtocolError, SignatureRejected
from tppkit.httpsig.cavage import SignatureParameters
from tppkit.httpsig.components import OF_REQUEST, STATUS
from tppkit.httpsig.digest import require_digests
from tppkit.httpsig.http_date import format_http_date
from tppkit.httpsig.rfc9421 import answer_values
from tppkit.httpsig.signing_string import message_components, require_field_value
from tppkit.message import Answer, Header, Message
from tppkit.seals.policy import SealPolicy
from tppkit.seals.profile import Format, SealProfile, covers_target
from tppkit.seals.seal import Seal
from tppkit.seals.sign import Write, prepare_cavage, prepare_rfc9421, require_own
from tppkit.seals.verified import read_digest
from tppkit.seals.verify import ReadSeal, find_date_fault, judge_seal, read_cavage, read_rfc9421
from tppkit.trust import TrustedPath

BANK = "PSP_AS"  # the role of account servicing payment service providers (ETSI TS 119 495 GEN-5.2.2-1)
_WITHOUT_CONTENT = frozenset({204, 304})  # RFC 9110 sections 15.3.5 and 15.4.5


class PreparedAnswer(NamedTuple):
    """An answer that lacks only its signature.

    Example:
        prepared = prepare_answer(answer, request=request, seal=seal, at=utc_now())
        sealed = prepared.finish(device.sign(prepared.signing_string))

    Attributes:
        answer: the answer with its digest and certificate.
        seal: the seal to use.
        signing_string: the bytes to sign.
        write: returns the headers of a signature.
    """

    answer: Answer
    seal: Seal
    signing_string: bytes
    write: Write

    def finish(self, signature: bytes) -> Answer:
        """Return the sealed answer.

        Args:
            signature: over `signing_string`, in the form of the signer's algorithm.

        Raises:
            ConfigurationError: `seal.own-signature`, the signature does not verify (with `verify_own`); `signer.answer`.
        """
        require_own(self.seal, signature, self.signing_string)
        return self.answer.with_headers(*self.write(signature))


class VerifiedAnswer(NamedTuple):
    """An answer whose seal is verified.

    Example:
        verified = verify_answer(received, request=sent, policy=policy, at=utc_now())
        archive(verified.organization_identifier, verified.body)

    Attributes:
        parameters: the parameters of the signature; `headers` are the covered names.
        signing_string: the signed bytes.
        seal: the bank's QSealC, which fits its profile and is trusted at `at`.
        path: the path from the seal to its root, with what is known of its revocation.
        at: the time of verification, aware UTC.
        profile: the dialect.
        digest: the covered value of the digest header.
        request: the request, as the verifier knows it.
        unverified_answer: the answer as received, including headers that are not signed.
    """

    parameters: SignatureParameters
    signing_string: bytes
    seal: EidasCertificate
    path: TrustedPath
    at: datetime
    profile: SealProfile
    digest: str
    request: Message
    unverified_answer: Answer

    @property
    def chain(self) -> tuple[EidasCertificate, ...]:
        """The seal first, the root last."""
        return self.path.chain

    @property
    def organization_identifier(self) -> str:
        """The organizationIdentifier of the bank that sealed the answer. Compare it if several banks have seals of your anchors."""
        identifier = self.seal.organization_identifier
        return identifier.text if identifier else ""

    @property
    def body(self) -> bytes:
        """The exact bytes that the seal covers."""
        return self.unverified_answer.body

    @property
    def covered(self) -> Mapping[str, str]:
        """The values of the answer's covered headers by lower-case name."""
        values, _ = _fields(self.unverified_answer.headers)
        return MappingProxyType({name: values[name] for name in self.parameters.headers if name in values})

    @property
    def covers_status(self) -> bool:
        """Whether the seal proves the status."""
        return STATUS in self.parameters.headers

    @property
    def covers_target(self) -> bool:
        """Whether the seal proves method and target of the request."""
        names = self.parameters.headers
        return covers_target([name.removesuffix(OF_REQUEST) for name in names if name.endswith(OF_REQUEST)])


def prepare_answer(answer: Answer, *, request: Message, seal: Seal, at: datetime) -> PreparedAnswer:
    """Compute the bytes to sign, to sign them elsewhere. Arguments and errors are those of `sign_answer`."""
    profile, at = require_for_answers(seal.profile), as_utc(at)
    if answer.status not in range(100, 600) or not isinstance(answer.body, bytes):
        raise FormatError("message.malformed", f"an answer has a status from 100 to 599 and bytes: {answer!r}")
    for name, value in answer.headers:
        require_field_value(name, value)
    values, doubled = _fields(answer.headers)
    twice = {*profile.covered_names, *profile.if_present}.intersection(doubled)
    if names := sorted(twice | seal.written.intersection(values)):
        message = f"{', '.join(names)}: sealing writes this header, or covers it and found it twice"
        raise LocalProtocolError("seal.header-present", message)
    added: list[Header] = [*seal.certificate_headers]
    added.append((profile.digest_field, profile.digest_value(_content(answer, request))))
    if profile.format is Format.CAVAGE:
        name, request_id = _request_id(request, profile)
        if values.get(name, request_id).lower() != request_id.lower():
            raise _other_request(values[name])
        given = (("X-Request-ID" if name == "x-request-id" else name, request_id), ("Date", format_http_date(at)))
        added += [
            field for field in given if field[0].lower() in profile.covered_names and field[0].lower() not in values
        ]
        values |= {name.lower(): value for name, value in added}
        signing_string, write = prepare_cavage(profile.covered_in(values), values, seal, at)
        return PreparedAnswer(answer.with_headers(*added), seal, signing_string, write)
    whole = answer.with_headers(*added)
    covered = profile.covered_in({**_fields(whole.headers)[0], **_of_request(request)})
    signing_string, write = prepare_rfc9421(
        answer_values(whole, request=request, origin=seal.origin), covered, seal, at
    )
    return PreparedAnswer(whole, seal, signing_string, write)


def sign_answer(answer: Answer, *, request: Message, seal: Seal, at: datetime) -> Answer:
    """Seal an answer.

        sealed = sign_answer(Answer(200, (), b"{}"), request=request, seal=seal, at=utc_now())

    Args:
        answer: status, headers and body, as they will be sent. To HEAD, and with 204 and 304, the body is not sent and not signed.
        request: the request as received.
        seal: certificate and signer, with one of `ANSWER_PROFILES` as its profile.
        at: the time of signing, aware.

    Returns:
        The answer with the digest, the certificate and the signature added at the end; in `cavage` also Date and X-Request-ID if it has
        none. The server must not add a Date of its own then.

    Raises:
        LocalProtocolError: `seal.header-present`, the answer already has a header of the seal, or has a covered header twice.
        SignatureRejected: `answer.request-id`, the answer repeats another X-Request-ID, or the request has none (`cavage`).
        FormatError: `message.malformed`, `signature.unsupported-component`, `header.*`, a covered part of the request or of the answer
            is malformed.
        ConfigurationError: `seal.for-answers`, the profile is not for answers; `time.naive`; see `Seal.sign` and `PreparedAnswer.finish`.

    Source: RFC 9421 sections 2.2.9 and 2.4; draft-cavage-http-signatures-10.
    """
    prepared = prepare_answer(answer, request=request, seal=seal, at=at)
    return prepared.finish(seal.sign(prepared.signing_string))


async def sign_answer_async(answer: Answer, *, request: Message, seal: Seal, at: datetime) -> Answer:
    """Seal an answer without blocking the event loop. Arguments and errors are those of `sign_answer`."""
    prepared = prepare_answer(answer, request=request, seal=seal, at=at)
    return prepared.finish(await seal.sign_async(prepared.signing_string))


def verify_answer(answer: Answer, *, request: Message, policy: SealPolicy, at: datetime) -> VerifiedAnswer:
    """Verify the seal of a bank's answer.

        verified = verify_answer(received, request=sent, policy=policy, at=utc_now())

    Args:
        answer: the answer as received; the body is hashed as raw bytes.
        request: the request as sent, with all its headers.
        policy: the anchors and the dialect, one of `ANSWER_PROFILES`. The anchors decide which banks are trusted.
        at: the time to judge at, aware. Pass the time of receipt when checking a kept answer.

    Raises:
        SignatureRejected: `signature.missing`, `signature.uncovered`, `signature.other-coverage`, `signature.header-absent`,
            `signature.created`, `signature.expired`, `signature.algorithm`, `signature.invalid`, `digest.algorithm`,
            `digest.mismatch`, `key-id.mismatch`, `seal.unknown-certificate`; `answer.request-id`, it is the answer to another request.
        CertificateRejected: the seal certificate: `role.missing`, it is not one of a bank; otherwise as in `verify_request`.
        FormatError: a header cannot be parsed; as in `verify_request`.
        ConfigurationError: `seal.for-answers`, the profile is not for answers; `time.naive`.

    Source: RFC 9421 sections 2.2.9, 2.4 and 3.2; draft-cavage-http-signatures-10; ETSI TS 119 495 GEN-5.2.2-1.
    """
    verified = verify_answer_head(answer, request=request, policy=policy, at=at)
    require_digests(read_digest(verified.digest, verified.profile), answer.body)  # 6
    return verified


def verify_answer_head(answer: Answer, *, request: Message, policy: SealPolicy, at: datetime) -> VerifiedAnswer:
    """Verify the seal of an answer without its body, for a record whose body was redacted.

    The `body` of the result is not proven. Arguments and errors are those of `verify_answer`.
    """
    # 1. Collect the headers; reject duplicates of single ones.
    # 2. Parse the seal strictly.
    # 3. It covers what the profile requires; its certificate is trusted at the time; signature and times are valid.
    # 4. The certificate is one of a bank.
    # 5. A covered Date is close to the time of judgement; in `cavage`, the X-Request-ID is that of the request.
    # 6. (in the caller) The digest fits the raw body.
    profile, at = require_for_answers(policy.profile), as_utc(at)
    values = _collect(answer, policy)  # 1
    read = read_answer_seal(answer, request, policy)  # 2
    if profile.format is Format.RFC9421:
        values |= _of_request(request)
    seal, digest = judge_seal(read, values, qwac=None, at=at, policy=policy)  # 3
    _require_bank(seal.certificate)  # 4
    covered = read.parameters.headers
    if "date" in covered and (fault := find_date_fault(values["date"], at, policy)) is not None:  # 5
        raise fault
    if profile.format is Format.CAVAGE:
        name, request_id = _request_id(request, profile)
        if values[name].lower() != request_id.lower():
            raise _other_request(values[name])
    if digest is None:  # a profile covers it always
        raise SignatureRejected("signature.uncovered", "the seal covers no digest")
    return VerifiedAnswer(
        read.parameters, read.signing_string, seal.certificate, seal.path, at, profile, digest, request, answer
    )


def read_answer_seal(answer: Answer, request: Message, policy: SealPolicy) -> ReadSeal:
    """Parse the seal of an answer, which need not hold. Errors are those of `verify_answer`."""
    values, _ = _fields(answer.headers)
    if policy.profile.format is Format.CAVAGE:
        return read_cavage(values, policy)
    return read_rfc9421(values, policy, value=answer_values(answer, request=request, origin=policy.origin))


def require_for_answers(profile: SealProfile) -> SealProfile:
    """Return a dialect of answers. Raises ConfigurationError: `seal.for-answers`, it is one of requests."""
    if not profile.for_answers:
        raise ConfigurationError(
            "seal.for-answers", f"the profile {profile.name} seals requests; choose one of ANSWER_PROFILES"
        )
    return profile


def _fields(headers: tuple[Header, ...]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Header fields by lower-case name, several of one name joined, and the names of duplicates."""
    values: dict[str, list[str]] = {}
    for name, value in headers:
        values.setdefault(name.lower(), []).append(value.strip(" \t"))
    doubled = tuple([name for name, lines in values.items() if len(lines) > 1])
    return {name: ", ".join(lines) for name, lines in values.items()}, doubled


def _of_request(request: Message) -> dict[str, str]:
    """The header fields of a request by the names that a seal in RFC 9421 has for them."""
    return {name + OF_REQUEST: value for name, value in message_components(request)[0].items()}


def _content(answer: Answer, request: Message) -> bytes:
    return b"" if request.method == "HEAD" or answer.status in _WITHOUT_CONTENT else answer.body


def _request_id(request: Message, profile: SealProfile) -> tuple[str, str]:
    """The lower-case name of the request id, which a profile in draft-cavage covers always, and its value in the request."""
    name = profile.request_id or ""
    values = request.values(name)
    if len(values) != 1:
        raise SignatureRejected("answer.request-id", f"the request has {len(values) or 'no'} {name} headers")
    return name, values[0].strip(" \t")


def _other_request(request_id: str) -> SignatureRejected:
    return SignatureRejected("answer.request-id", f"the answer is for the request {shown(request_id)}")


def _collect(answer: Answer, policy: SealPolicy) -> dict[str, str]:
    demands = policy.demands
    values, doubled = _fields(answer.headers)
    uncovered = {"date"} - demands.covered  # some servers add one beside the application's
    for name in doubled:
        if name in demands.singletons - uncovered:
            raise FormatError("header.duplicate", f"the {name} header of the answer appears more than once")
    if missing := demands.sealing.difference(values):
        names = ", no ".join(sorted(missing))
        raise SignatureRejected("signature.missing", f"the answer has no {names} header")
    return values


def _require_bank(certificate: EidasCertificate) -> None:
    if BANK not in certificate.roles:
        stated = shown(", ".join(certificate.roles), limit=200) if certificate.roles else "none"
        raise CertificateRejected(
            "role.missing", f"the seal of an answer needs the role {BANK}, but the certificate has {stated}",
            clause="ETSI TS 119 495 GEN-5.2.2-1",
        )  # fmt: skip
