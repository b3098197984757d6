"""What the seal of a request says, read from each format into the shape that verification has for all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tppkit._encoding import decode_base64, encode_base64url
from tppkit._named_tuple import new_tuple
from tppkit.errors import FormatError, SignatureRejected
from tppkit.httpsig.cavage import (
    AUTHORIZATION_SCHEME,
    MAX_HEADER_LENGTH,
    SignatureParameters,
    parse_signature_header,
    time_components,
)
from tppkit.httpsig.jws import make_jws_signing_input, parse_detached_jws
from tppkit.httpsig.message import Message, make_signing_string, message_components
from tppkit.httpsig.rfc9421 import make_signature_base, parse_signature_fields, request_values
from tppkit.seals.advice import signature_form, with_form
from tppkit.seals.key_id import KeyIdForm
from tppkit.seals.policy import SealPolicy
from tppkit.seals.profile import Format

_LAST = ',signature="'


class ReadSeal(NamedTuple):
    """What the seal of a request says.

    Attributes:
        parameters: as of a Signature header; `headers` are the covered names, `key_id` is empty where the seal names none.
        signing_string: the bytes that were signed.
        certificates: DER, the seal's first, where they stand in the seal itself.
        head: the text before the signature, if it may be remembered: it says no time, and covers only fields that are watched.
        is_new: the text was not known from a seal that was verified before.
    """

    parameters: SignatureParameters
    signing_string: bytes
    certificates: tuple[bytes, ...] = ()
    head: str = ""
    is_new: bool = True


def read_seal(message: Message, values: Mapping[str, str], policy: SealPolicy) -> ReadSeal:
    """What the seal says, in the profile's format.

    Args:
        message: the request.
        values: its fields by lower-case name; those that hold the seal are among them.
        policy: the dialect, what was verified before, and where requests arrive.

    Raises:
        FormatError: as the readers of the formats in `httpsig`.
        SignatureRejected: `signature.missing`, `signature.header-absent`, `signature.algorithm` where none is named.
    """
    if policy.profile.format is not Format.CAVAGE:
        read = _read_jws if policy.profile.format is Format.JWS else _read_rfc9421
        return read(message, values, policy)
    value, named = values[policy.demands.carrier], values.get(policy.demands.certificate_header or "")
    # The text before `signature` is remembered, and a remembered one used, only where the quoted `signature` is the last thing
    # in the header: so a header with a remembered text and another signature reads exactly as the strict reader would read it.
    head, _, last = value.rpartition(_LAST)
    encoded, quote, rest = last.partition('"')
    if named is None or not quote or rest or len(value) > MAX_HEADER_LENGTH:
        return _read_cavage(message, values, policy, "")
    known = policy.memory.heads.get((head, named))
    if known is None:
        return _read_cavage(message, values, policy, head)
    try:
        signature = decode_base64(encoded, what="the signature parameter")
    except FormatError:  # which the strict reader names
        return _read_cavage(message, values, policy, head)
    key_id, algorithm, covered, *_ = known
    parameters = new_tuple(SignatureParameters, (key_id, algorithm, covered, signature, None, None))
    return new_tuple(ReadSeal, (parameters, make_signing_string(covered, values), (), head, False))


def _read_cavage(message: Message, values: Mapping[str, str], policy: SealPolicy, head: str) -> ReadSeal:
    value, watched = values[policy.demands.carrier], policy.demands.watched
    if policy.profile.carrier == "Authorization":
        value = _after_scheme(value)
    try:
        parameters = parse_signature_header(value, reading=policy.profile.reading)
    except FormatError as e:
        raise with_form(e, signature_form(policy.profile), policy.profile) from e
    if parameters.created is not None or parameters.expires is not None:
        head = ""  # with a time in it no text comes again
    if watched is not None and not watched.issuperset(parameters.headers):
        values, head = message_components(message)[0], ""
    signing_string = make_signing_string(parameters.headers, {**values, **time_components(parameters)})
    return ReadSeal(parameters, signing_string, (), head)


def _after_scheme(value: str) -> str:
    scheme = value[: len(AUTHORIZATION_SCHEME)]
    if scheme.lower() != AUTHORIZATION_SCHEME.lower():
        raise SignatureRejected("signature.missing", "the Authorization header does not begin with Signature")
    return value[len(scheme) :]


def _read_rfc9421(message: Message, values: Mapping[str, str], policy: SealPolicy) -> ReadSeal:
    profile = policy.profile
    read, signature = parse_signature_fields(values["signature-input"], values["signature"], label=profile.label)
    if read.algorithm is None:
        raise SignatureRejected("signature.algorithm", "the signature has no alg, which this profile demands")
    if profile.expires_after is not None and read.expires is None:
        raise FormatError("signature.missing-parameter", "the signature has no expires, which this profile demands")
    if any(component.name == "date" and component.parameters for component in read.components):
        raise FormatError("signature.unsupported-component", "the Date is covered in parts, which says no time")
    covered = tuple([str(component) if component.parameters else component.name for component in read.components])
    parameters = SignatureParameters(
        read.key_id or "", read.algorithm, covered, signature, created=read.created, expires=read.expires
    )
    return ReadSeal(parameters, make_signature_base(read, request_values(message, origin=policy.origin)))


def _read_jws(message: Message, values: Mapping[str, str], policy: SealPolicy) -> ReadSeal:
    profile = policy.profile
    header, signature = parse_detached_jws(values[policy.demands.carrier])
    key_id = header.key_id
    if profile.key_id.form is KeyIdForm.THUMBPRINT:
        if header.certificate_sha256 is None:
            raise FormatError(
                "signature.missing-parameter", "the signature has no x5t#S256, which this profile demands"
            )
        key_id = encode_base64url(header.certificate_sha256)
    parameters = SignatureParameters(key_id or "", header.algorithm, header.covered, signature, created=header.created)
    payload = make_signing_string(header.covered, message_components(message)[0])
    in_seal = header.certificates if profile.sends_x5c else ()
    return ReadSeal(parameters, make_jws_signing_input(header, payload), in_seal)
