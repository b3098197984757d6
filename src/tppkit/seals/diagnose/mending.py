"""The request with every mistake mended that was found in it: what the verifier refuses in that was not explained."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress

from tppkit._encoding import encode_base64
from tppkit.certificates import EidasCertificate
from tppkit.errors import ConfigurationError, FormatError
from tppkit.httpsig.algorithms import key_kind
from tppkit.httpsig.cavage import AUTHORIZATION_SCHEME, SignatureParameters
from tppkit.httpsig.digest import make_digest
from tppkit.httpsig.message import Header, Message
from tppkit.seals.certificate_header import write_certificate
from tppkit.seals.key_id import make_key_id
from tppkit.seals.policy import demands_of
from tppkit.seals.profile import SealProfile

_NO_SIGNATURE = encode_base64(bytes(64))  # the mended request is judged without a look at its signature


def mend_request(
    message: Message,
    *,
    parameters: SignatureParameters,
    certificate: EidasCertificate,
    profile: SealProfile,
    mistakes: Collection[str],
) -> Message:
    """The request as its sender should have sent it, but for the signature, which only he can make.

    Args:
        message: the request.
        parameters: of its signature, as read.
        certificate: its seal certificate.
        profile: the dialect.
        mistakes: names of those that were found; only these are mended.
    """
    if "header-doubled" in mistakes:
        message = message._replace(headers=_single(message.headers, demands_of(profile).singletons))
    if any(name.startswith("certificate-") for name in mistakes) and profile.certificate_header is not None:
        text = write_certificate(certificate, profile.certificate_form)
        message = _with_header(message, profile.certificate_header, text)
    if any(name.startswith(("digest-", "body-", "json-", "form-")) for name in mistakes):
        body = message.body or profile.empty_content
        message = _with_header(message, "Digest", make_digest(body, algorithm=profile.digest_algorithm))
    message = message.with_headers(*[(name, "-") for name in _unsent(message, parameters, profile, mistakes)])
    mended = _mended_parameters(message, parameters, certificate, profile, mistakes)
    scheme = AUTHORIZATION_SCHEME if profile.carrier == "Authorization" else ""
    stripped = message._replace(headers=tuple([row for row in message.headers if row[0].lower() != "signature"]))
    return _with_header(stripped, profile.carrier, scheme + _written(mended, profile))


def _single(headers: tuple[Header, ...], singletons: Collection[str]) -> tuple[Header, ...]:
    first = {name.lower(): number for number, (name, _) in reversed(tuple(enumerate(headers)))}
    return tuple(
        [
            row
            for number, row in enumerate(headers)
            if row[0].lower() not in singletons or first[row[0].lower()] == number
        ]
    )


def _with_header(message: Message, name: str, value: str) -> Message:
    others = [header for header in message.headers if header[0].lower() != name.lower()]
    return message._replace(headers=(*others, (name, value)))


def _mended_parameters(
    message: Message,
    parameters: SignatureParameters,
    certificate: EidasCertificate,
    profile: SealProfile,
    mistakes: Collection[str],
) -> SignatureParameters:
    key_id, algorithm = parameters.key_id, parameters.algorithm
    if "key-id-form" in mistakes or "key-id-other" in mistakes:
        with suppress(ConfigurationError, FormatError):
            key_id = make_key_id(certificate, style=profile.key_id)
    absent = "parameter-missing" in mistakes and not algorithm
    if absent or "algorithm-name" in mistakes or "algorithm-other-key" in mistakes:
        with suppress(FormatError):
            algorithm = next(iter(profile.algorithms_of(key_kind(certificate.public_key))), algorithm)
    created = None if "time-not-allowed" in mistakes else parameters.created
    expires = None if "time-not-allowed" in mistakes else parameters.expires
    names = _covered(message, parameters, profile, mistakes)
    return SignatureParameters(key_id, algorithm, names, b"", created, expires)


def _unsent(
    message: Message, parameters: SignatureParameters, profile: SealProfile, mistakes: Collection[str]
) -> Iterator[str]:
    """What is demanded, or covered, and did not arrive; any text serves for it but a date or digest, which are judged."""
    if not {"request-id-missing", "header-not-sent", "covered-absent"}.isdisjoint(mistakes):
        present = {name.lower() for name, _ in message.headers} | {"date", profile.digest_name}
        for name in sorted(demands_of(profile).covered):
            if name not in present and not name.startswith("("):
                yield name


def _covered(
    message: Message, parameters: SignatureParameters, profile: SealProfile, mistakes: Collection[str]
) -> tuple[str, ...]:
    demands = demands_of(profile)
    present = {name.lower() for name, _ in message.headers}
    names = dict.fromkeys(parameters.headers)
    if "time-not-allowed" in mistakes:
        names = {name: None for name in names if name not in ("(created)", "(expires)")}
    if "covered-absent" in mistakes:
        names = {name: None for name in names if name in present or name.startswith("(")}
    if "covered-too-much" in mistakes and demands.allowed is not None:
        allowed = demands.allowed
        names = {name: None for name in names if name in allowed or name.startswith(demands.prefixes)}
    if not {"uncovered", "digest-missing", "request-id-missing", "header-not-sent", "covered-absent"}.isdisjoint(
        mistakes
    ):
        demanded = {name for name in demands.covered if name in present or name.startswith("(")}
        names |= dict.fromkeys(sorted(demanded | demands.if_present.intersection(present)))
        names |= {name: None for name in sorted(present) if demands.prefixes and name.startswith(demands.prefixes)}
    return tuple(names)


def _written(parameters: SignatureParameters, profile: SealProfile) -> str:
    mark = '"' if profile.signature_quoted else ""
    times = "".join(
        [f",{name}={value}" for name in ("created", "expires") if (value := getattr(parameters, name)) is not None]
    )
    return (
        f'keyId="{parameters.key_id}",algorithm="{parameters.algorithm}"{times},'
        f'headers="{" ".join(parameters.headers)}",signature={mark}{_NO_SIGNATURE}{mark}'
    )
