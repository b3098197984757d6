"""The private parameters of a JWS over the body: those of a dialect, each with its rule (`SealProfile.private`).

RFC 7515 section 4.1.11 requires a verifier to process what crit lists. So a dialect names each parameter that it processes, a
seal must list all of them, and every other one is rejected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tppkit._encoding import shown
from tppkit.certificates import EidasCertificate
from tppkit.errors import ConfigurationError, FormatError, SignatureRejected
from tppkit.httpsig.jws import JwsHeader, Private, PrivateNames
from tppkit.seals.key_id import is_name_of
from tppkit.seals.profile import SealProfile


def private_names(profile: SealProfile) -> PrivateNames:
    """Return the parameters that a dialect processes."""
    return {name: Private.TIME if rule == "time" else Private.TEXT for name, rule in profile.private}


def private_values(profile: SealProfile, certificate: EidasCertificate) -> Mapping[str, str | None]:
    """Return the values to write, None for the time of signing.

    Raises:
        ConfigurationError: `profile.private`, the rule of a parameter is `text`.
    """
    return {name: _value(name, rule, profile, certificate) for name, rule in profile.private}


def _value(name: str, rule: str, profile: SealProfile, certificate: EidasCertificate) -> str | None:
    if rule == "text":
        raise ConfigurationError(
            "profile.private", f"the profile {profile.name} has no value for {shown(name)}; derive one with =TEXT"
        )
    return {"time": None, "subject": str(certificate.subject)}.get(rule, rule[1:])


def require_private_names(header: JwsHeader, profile: SealProfile) -> None:
    """Check that a seal lists every private parameter of its dialect.

    Raises:
        FormatError: `signature.missing-parameter`.
    """
    missing = [name for name, _ in profile.private if name not in header.critical]
    if missing:
        raise FormatError("signature.missing-parameter", f"crit does not list {', '.join(missing)}")


def verify_private_texts(
    texts: Sequence[tuple[str, str]], certificate: EidasCertificate, *, profile: SealProfile
) -> None:
    """Compare the private texts of a seal with the rules of its dialect.

    Args:
        texts: names and values.
        certificate: the trusted seal certificate.
        profile: the dialect.

    Raises:
        SignatureRejected: `signature.private-parameter`.
    """
    rules = dict(profile.private)
    for name, text in texts:
        rule = rules[name]
        if rule == "subject" and not is_name_of(text, certificate.subject):
            wanted = f"the certificate's subject {certificate.subject}"
        elif rule[0] == "=" and text != rule[1:]:
            wanted = shown(rule[1:])
        else:
            continue
        raise SignatureRejected("signature.private-parameter", f"{shown(name)} is {shown(text)}, not {wanted}")


def require_content(body: bytes, profile: SealProfile) -> None:
    """Reject an empty body in a dialect that covers nothing else: such a seal would fit every request without a body.

    Raises:
        SignatureRejected: `signature.uncovered`.
    """
    if not body:
        raise SignatureRejected(
            "signature.uncovered", f"the profile {profile.name} signs the body alone, and the request has none"
        )
