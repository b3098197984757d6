"""Seal a request: add the digest, the signature and the seal certificate.

Use `sign_request` or `sign_request_async`. To sign elsewhere, call `prepare_request`, which returns the bytes to sign, and pass
the signature to `PreparedRequest.finish`.

| | draft-cavage | RFC 9421 | detached JWS |
|---|---|---|---|
| headers | Signature or Authorization | Signature-Input, Signature under the profile's label | the profile's carrier, x-jws-signature |
| covered | `headers`: `(request-target)`, `digest` | components: `@method`, `@query` | `pars`: `(request-target)`, `digest`; or the body |
| keyId | `keyId` | `keyid` | `x5t#S256` if the profile's keyId is a thumbprint, else `kid` |
| time of signing | `created`, if covered | `created` | `sigT`, `iat` or a private parameter |
| certificate | a header, or found by keyId | a header, or found by keyId | `x5c`, a header, or found by keyId |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from hashlib import sha256
from typing import NamedTuple

from tppkit._clock import as_utc
from tppkit._encoding import encode_base64
from tppkit.certificates import EidasCertificate
from tppkit.errors import ConfigurationError, LocalProtocolError, SignatureRejected
from tppkit.httpsig.cavage import CREATED, EXPIRES
from tppkit.httpsig.components import Component, component_of
from tppkit.httpsig.jws import make_detached_jws, make_jws_header, make_jws_payload, make_jws_signing_input
from tppkit.httpsig.rfc9421 import make_signature_base, make_signature_fields, make_signature_input, request_values
from tppkit.httpsig.signing_string import make_signing_string, message_components
from tppkit.message import Header, Message
from tppkit.seals.key_id import KeyIdForm
from tppkit.seals.private_parameters import private_values, require_content
from tppkit.seals.profile import EmptyBody, Format, SealProfile
from tppkit.seals.seal import Seal, require_bytes

Headers = tuple[Header, ...]
Write = Callable[[bytes], Headers]  # returns the headers of a signature


class PreparedRequest(NamedTuple):
    """A request that lacks only its signature.

    Example:
        prepared = prepare_request(message, seal=seal)
        sealed = prepared.finish(device.sign(prepared.signing_string))

    Attributes:
        message: the message to seal.
        seal: the seal to use.
        signing_string: the bytes to sign.
        digest: the Digest header, or nothing.
        write: returns the headers of a signature.
        covered: the lower-case names that the seal covers.
    """

    message: Message
    seal: Seal
    signing_string: bytes
    digest: Headers
    write: Write
    covered: tuple[str, ...]

    def finish(self, signature: bytes) -> Message:
        """Return the sealed message, with the headers of the seal at the end.

        Args:
            signature: over `signing_string`, in the form of the signer's algorithm.

        Raises:
            ConfigurationError: `seal.own-signature`, the signature does not verify (with `verify_own`); `signer.answer`, it is not
                bytes.
        """
        message, seal = self.message, self.seal
        require_own(seal, signature, self.signing_string)
        headers = message.headers + self.digest + self.write(signature) + seal.certificate_headers
        return Message(message.method, message.target, headers, message.body)


class SentRequest(NamedTuple):
    """A request that was sealed, to be kept as evidence before it is sent.

    Example:
        Psd2Client(base_url, identity=identity, keep=lambda sent: archive.append(make_sent_record(sent)))

    Attributes:
        message: the request with its seal.
        prepared: what was signed, and the seal.
        qwac_chain: the website certificate of new connections, and the authorities sent with it.
        at: the time of signing, aware UTC.
    """

    message: Message
    prepared: PreparedRequest
    qwac_chain: tuple[EidasCertificate, ...]
    at: datetime


def require_own(seal: Seal, signature: bytes, data: bytes) -> None:
    """Reject what is not bytes, and with `verify_own` a signature that does not verify. Raises the errors of `PreparedRequest.finish`."""
    require_bytes(signature)
    if not seal.verify_own:
        return
    try:
        seal.verify(signature, data)
    except SignatureRejected as e:
        raise ConfigurationError(
            "seal.own-signature", f"the signer of {seal.certificate.subject} made a signature that does not verify"
        ) from e


def prepare_request(message: Message, *, seal: Seal, at: datetime | None = None) -> PreparedRequest:
    """Compute the bytes to sign, to sign them elsewhere.

        prepared = prepare_request(message, seal=seal)
        sealed = prepared.finish(device.sign(prepared.signing_string))

    Args:
        message: method, target, body and every header that the profile covers except Digest (for `psd2-v1`: X-Request-ID), as they
            will be sent.
        seal: certificate and signer.
        at: the time of signing, aware, for a dialect that writes it.

    Raises:
        LocalProtocolError: `seal.header-present`, the message already has a header of the seal, or has a covered header twice.
        SignatureRejected: `signature.header-absent`, a covered header is missing; `signature.uncovered`, the profile covers the body
            alone, and there is none.
        FormatError: `header.control-character`, `message.malformed`; `form-data.*`, the profile hashes the file of a form.
        ConfigurationError: `seal.time-needed`, `time.naive`, `seal.for-answers`; `profile.private`, a private parameter has no known
            value.

    Source: PSD2 document, part A section 4; draft-cavage-http-signatures-10 and -12.
    """
    profile = seal.profile
    if profile.for_answers:
        raise ConfigurationError("seal.for-answers", f"the profile {profile.name} seals answers; use sign_answer")
    values, doubled = message_components(message)
    if doubled or not seal.written.isdisjoint(values):
        _refuse_present(doubled, values, seal)
    digest: Headers = ()
    if profile.covers_body:
        require_content(message.body, profile)
    elif message.body or profile.empty_body is not EmptyBody.ABSENT:
        values[profile.digest_name] = written = profile.digest_value(profile.hashed(message))
        digest = ((profile.digest_field, written),)
    covered = profile.covered_in(values)
    if profile.format is Format.CAVAGE:
        signing_string, write = prepare_cavage(covered, values, seal, at)
    else:
        whole, at = message.with_headers(*digest, *seal.certificate_headers), _required_time(profile, at)
        if profile.format is Format.JWS:
            signing_string, write = _prepare_jws(whole, covered, seal, at)
        else:
            signing_string, write = prepare_rfc9421(request_values(whole, origin=seal.origin), covered, seal, at)
    return PreparedRequest(message, seal, signing_string, digest, write, covered)


def _refuse_present(doubled: tuple[str, ...], values: Mapping[str, str], seal: Seal) -> None:
    covered, prefixes = {*seal.profile.covered_names, *seal.profile.if_present}, seal.profile.prefixes
    twice = [n for n in doubled if n in covered or n in seal.written or n.startswith(prefixes)]
    names = sorted({*twice, *seal.written.intersection(values)})
    if names:
        raise LocalProtocolError(
            "seal.header-present", f"{', '.join(names)}: sealing writes this header, or covers it and found it twice"
        )


def prepare_cavage(
    covered: tuple[str, ...], values: dict[str, str], seal: Seal, at: datetime | None
) -> tuple[bytes, Write]:
    """Return the signing string of a seal in draft-cavage, and the function that writes its headers."""
    profile, head = seal.profile, seal.head(covered)
    if CREATED in covered or EXPIRES in covered:
        created, expires = _times(profile, at)
        values |= {CREATED: str(created), EXPIRES: str(expires)}
        head += f",created={created}" + (f",expires={expires}" if EXPIRES in covered else "")
    quote = '"' if profile.signature_quoted else ""

    def write(signature: bytes) -> Headers:
        return ((profile.carrier, f"{head},signature={quote}{encode_base64(signature)}{quote}"),)

    return make_signing_string(covered, values), write


def prepare_rfc9421(
    value: Callable[[Component], str], covered: tuple[str, ...], seal: Seal, at: datetime
) -> tuple[bytes, Write]:
    """Return the signature base of a seal in RFC 9421, and the function that writes its headers."""
    profile = seal.profile
    expires = None if profile.expires_after is None else at + profile.expires_after
    components = [component_of(name) for name in covered]
    parameters = make_signature_input(
        components, created=at, expires=expires, algorithm=seal.algorithm, key_id=seal.key_id
    )

    def write(signature: bytes) -> Headers:
        fields = make_signature_fields(parameters, signature, label=profile.label)
        return ("Signature-Input", fields[0]), ("Signature", fields[1])

    return make_signature_base(parameters, value), write


def _prepare_jws(message: Message, covered: tuple[str, ...], seal: Seal, at: datetime) -> tuple[bytes, Write]:
    profile, der = seal.profile, seal.certificate.der
    by_thumbprint = profile.key_id.form is KeyIdForm.THUMBPRINT
    header = make_jws_header(
        covered,
        algorithm=seal.algorithm,
        signed_at=at,
        certificates=[der] if profile.sends_x5c else [],
        certificate_sha256=sha256(der).digest() if by_thumbprint else None,
        key_id=None if by_thumbprint else seal.key_id,
        private=private_values(profile, seal.certificate),
        b64=profile.b64,
    )
    return make_jws_signing_input(header, make_jws_payload(header, message)), lambda signature: (
        (profile.carrier, make_detached_jws(header, signature)),
    )


def _times(profile: SealProfile, at: datetime | None) -> tuple[int, int | None]:
    created = int(_required_time(profile, at).timestamp())
    lifetime = profile.expires_after
    return created, None if lifetime is None else created + int(lifetime.total_seconds())


def _required_time(profile: SealProfile, at: datetime | None) -> datetime:
    if at is None:
        raise ConfigurationError("seal.time-needed", f"the profile {profile.name} writes the time of signing; pass at=")
    return as_utc(at)


def sign_request(message: Message, *, seal: Seal, at: datetime | None = None) -> Message:
    """Seal a request.

        sealed = sign_request(message, seal=Seal.for_key(certificate, key))

    Args:
        message: the request, with every header that the profile covers except Digest.
        seal: certificate and signer.
        at: the time of signing, aware, for a dialect that writes it.

    Returns:
        The message with Digest, Signature and the certificate's header added at the end.

    Raises:
        The errors of `prepare_request`, `PreparedRequest.finish` and `Seal.sign`, for example `signer.async-only`.
    """
    prepared = prepare_request(message, seal=seal, at=at)
    return prepared.finish(seal.sign(prepared.signing_string))


async def sign_request_async(message: Message, *, seal: Seal, at: datetime | None = None) -> Message:
    """Seal a request without blocking the event loop. Arguments and errors are those of `sign_request`."""
    prepared = prepare_request(message, seal=seal, at=at)
    return prepared.finish(await seal.sign_async(prepared.signing_string))
