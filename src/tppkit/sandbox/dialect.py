"""The sandbox's data for seals of a dialect: keyIds that it issues, and certificates that requests do not contain."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tppkit.certificates import EidasCertificate
from tppkit.errors import FormatError
from tppkit.seals import KeyIdForm, SealProfile
from tppkit.seals.key_id import make_key_id
from tppkit.testpki.folder import open_pki


def key_id_of(profile: SealProfile, certificate: EidasCertificate) -> str | None:
    """Return the keyId that the sandbox issues to a provider: its organizationIdentifier, alone or in a URL; else None."""
    organization = certificate.organization_identifier
    name = organization.text if organization else ""
    given = {KeyIdForm.CLIENT_ID: name, KeyIdForm.URL: f"https://tpp.example/{name}"}
    return given.get(profile.key_id.form)


def sends_certificate(profile: SealProfile) -> bool:
    """Whether requests contain the certificate of the seal."""
    return profile.certificate_header is not None or profile.sends_x5c


def demanded_headers(profile: SealProfile) -> Mapping[str, str]:
    """Return example values for the headers that a seal must cover and neither client nor signer writes, in lower case."""
    written = {"date", "digest", "content-type", "content-length", profile.request_id or "", profile.digest_name}
    return {name: "example" for name in sorted(profile.demanded - written) if name[0] not in "(@"}


def known_seals(profile: SealProfile, pki: Path) -> dict[str, EidasCertificate]:
    """Return the PKI's QSealCs by their keyIds, for a dialect that sends no certificate; else an empty mapping.

    Raises:
        ConfigurationError: `pki.unusable`, the folder is not a test PKI.
    """
    if sends_certificate(profile):
        return {}
    folder = open_pki(pki).pki
    members = [issued.certificate for issued in folder.members.values() if issued.kind == "qseal"]
    requested = [certificate for certificate in folder.requested if "eseal" in certificate.qc.types]
    known: dict[str, EidasCertificate] = {}
    for certificate in (*members, *requested):
        key_id = make_key_id(certificate, style=profile.key_id, text=key_id_of(profile, certificate))
        known.setdefault(key_id, certificate)  # the first one of several of an organisation
    return known


def seal_key_kind(profile: SealProfile, *, like: EidasCertificate | None = None) -> str | None:
    """Return the kind of key for a QSealC: P-256 if the dialect has an algorithm for it, else RSA.

    Args:
        profile: the dialect.
        like: None is returned if a key of the same kind as this certificate's fits the dialect.
    """
    with suppress(FormatError):
        if like is not None:
            profile.algorithm_for(like)
            return None
    try:
        profile.algorithms_of("P-256")
    except FormatError:
        return "rsa2048"
    return "p256"
