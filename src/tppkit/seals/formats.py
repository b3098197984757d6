"""Writer of seals in other formats than draft-cavage. `verify.read_seal` is the parser.

| | RFC 9421 | detached JWS |
|---|---|---|
| headers | Signature-Input, Signature under the profile's label | the profile's carrier, x-jws-signature |
| covered | components by identifier: `@method`, `x-request-id` | `pars`: `(request-target)`, `x-request-id` |
| keyId | `keyid` | `x5t#S256` if the profile's keyId is a thumbprint, else `kid` |
| time of signing | `created` | `sigT` or `iat` |
| certificate | a header, or found by keyId | `x5c`, a header, or found by keyId |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from hashlib import sha256
from typing import NamedTuple

from tppkit.certificates import EidasCertificate
from tppkit.httpsig.components import Component, Origin
from tppkit.httpsig.jws import make_detached_jws, make_jws_signing_input
from tppkit.httpsig.jws_header import make_jws_header
from tppkit.httpsig.message import Header, Message, make_signing_string, message_components
from tppkit.httpsig.rfc9421 import (
    make_signature_base,
    make_signature_fields,
    make_signature_input,
    request_values,
)
from tppkit.seals.key_id import KeyIdForm
from tppkit.seals.profile import Format, SealProfile


class UnsignedSeal(NamedTuple):
    """A seal that lacks its signature.

    Attributes:
        signing_string: the bytes to sign.
        finish: returns the header fields for a signature.
    """

    signing_string: bytes
    finish: Callable[[bytes], tuple[Header, ...]]


def prepare_seal(
    message: Message,
    covered: Sequence[str],
    *,
    profile: SealProfile,
    certificate: EidasCertificate,
    algorithm: str,
    key_id: str,
    at: datetime,
    origin: Origin | None,
) -> UnsignedSeal:
    """Prepare the seal of a request in the profile's format.

    Args:
        message: the request, with every covered header.
        covered: names in order, lower case.
        profile: the dialect, in another format than draft-cavage.
        certificate: the seal certificate.
        algorithm: the name of the algorithm on the wire.
        key_id: the keyId of the certificate.
        at: the time of signing, aware.
        origin: the origin that the request is sent to.

    Raises:
        FormatError: see `rfc9421.make_signature_base` and `message.make_signing_string`.
        SignatureRejected: `signature.header-absent`.
    """
    if profile.format is Format.JWS:
        return _prepare_jws(message, covered, profile, certificate, algorithm, key_id, at)
    expires = None if profile.expires_after is None else at + profile.expires_after
    parameters = make_signature_input(
        [Component(name) for name in covered], created=at, expires=expires, algorithm=algorithm, key_id=key_id
    )

    def finish(signature: bytes) -> tuple[Header, ...]:
        fields = make_signature_fields(parameters, signature, label=profile.label)
        return ("Signature-Input", fields[0]), ("Signature", fields[1])

    return UnsignedSeal(make_signature_base(parameters, request_values(message, origin=origin)), finish)


def _prepare_jws(
    message: Message,
    covered: Sequence[str],
    profile: SealProfile,
    certificate: EidasCertificate,
    algorithm: str,
    key_id: str,
    at: datetime,
) -> UnsignedSeal:
    by_thumbprint = profile.key_id.form is KeyIdForm.THUMBPRINT
    header = make_jws_header(
        covered,
        algorithm=algorithm,
        signed_at=at,
        certificates=[certificate.der] if profile.sends_x5c else [],
        certificate_sha256=sha256(certificate.der).digest() if by_thumbprint else None,
        key_id=None if by_thumbprint else key_id,
    )
    payload = make_signing_string(header.covered, message_components(message)[0])
    return UnsignedSeal(
        make_jws_signing_input(header, payload),
        lambda signature: ((profile.carrier, make_detached_jws(header, signature)),),
    )
