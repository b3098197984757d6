"""The manifest of a test PKI: its entries, and the members and revocation lists of a folder as the manifest names them."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from cryptography import x509

from tppkit._clock import format_time
from tppkit._encoding import parse_json
from tppkit._files import PUBLIC, read_bounded
from tppkit.certificates import EidasCertificate, load_certificates, oids
from tppkit.errors import ConfigurationError, FormatError
from tppkit.testpki.certificate import Issued, is_issued_by
from tppkit.testpki.crl import Revocation
from tppkit.testpki.keys import KeySource, PrivateKey, kind_of_key, load_key
from tppkit.testpki.pki import CALLBACK_KEYS, SIGNERS, Pki
from tppkit.testpki.profiles import SERVICES_URL, contains_test, policy_of
from tppkit.testpki.provider import provider_of

MANIFEST = "manifest.json"
MAX_LIST_BYTES = 32 * 1024 * 1024
_MAX_BYTES = 4 * 1024 * 1024


class PkiFile(NamedTuple):
    """A file of a test PKI: its name in the folder, its content, and its mode."""

    name: str
    content: bytes
    mode: int = PUBLIC


Entry = dict[str, Any]


def make_entry(
    path: str,
    kind: str,
    sha256: str,
    not_after: datetime | None,
    *,
    further: Sequence[str] = (),
    key_path: str | None = None,
) -> Entry:
    """Return an entry of the manifest.

    Args:
        path: The file.
        kind: The kind of file, as CLI.md names it.
        sha256: SHA-256 of a certificate's DER, or of any other file's bytes, in hexadecimal.
        not_after: The time at which it ends, aware UTC, or None.
        further: Its other files.
        key_path: The file of its private key.
    """
    return {
        "path": path, "kind": kind, "key_path": key_path, "sha256": sha256,
        "not_after": format_time(not_after) if not_after else None, "expected": [], "further_paths": list(further),
    }  # fmt: skip


def manifest_json(manifest: Entry) -> bytes:
    """Write the manifest, or any other object, as JSON."""
    return (json.dumps(manifest, indent=2, ensure_ascii=False) + "\n").encode()


class PublishedCrl(NamedTuple):
    """Number and revocations of a list in the folder; the defaults describe a list that does not exist."""

    number: int = 0
    revoked: tuple[Revocation, ...] = ()


def load_pki(path: Path) -> Pki:
    """Load the test PKI of a folder that `write_pki` made.

    Raises:
        ConfigurationError: As `folder.open_pki`.
    """
    entries = [e for e in read_manifest(path)["files"] if e["kind"] != "fault" and e["path"].endswith(".pem")]
    with_keys = [e for e in entries if isinstance(e.get("key_path"), str)]
    loaded = [_load_member(path, e["path"], e["key_path"], e["kind"]) for e in with_keys]
    members = {issued.label: issued for issued in loaded}
    lacking = {*SIGNERS, "qwac", "qseal", "other-qwac"}.difference(members)
    if lacking:
        raise ConfigurationError(
            "pki.unusable", f"{path} lacks {', '.join(sorted(lacking))}: make a new PKI (pki create)"
        )
    for label, signer in SIGNERS.items():
        if not is_issued_by(members[label].certificate, members[signer.issuer].certificate):
            message = f"{label} was not issued by {signer.issuer} of this folder: it is not used to sign"
            raise ConfigurationError("pki.foreign-key", message)
    qwac, qseal = members["qwac"].certificate, members["qseal"].certificate
    ocsp_url = next(iter(qwac.extensions.ocsp_urls), f"{SERVICES_URL}/ocsp")
    pki = Pki(
        provider=provider_of(qwac),
        other_provider=provider_of(members["other-qwac"].certificate),
        members=MappingProxyType(members),
        callback_keys=MappingProxyType({label: _load_key(path, f"{label}.key") for label in CALLBACK_KEYS}),
        keys=KeySource(kind_of_key(members["qwac"].key)),
        not_before=qwac.not_before,
        days=(qwac.not_after - qwac.not_before).days + 1,
        services_url=ocsp_url.removesuffix("/ocsp"),
        policy=policy_of(qwac),
        qscd=qseal.qc.sscd,
        seal_key=kind_of_key(members["qseal"].key),
        requested=tuple(_load_chain(path, e["path"])[0] for e in entries if e not in with_keys),
    )
    return with_revocations(pki, path)


def with_revocations(pki: Pki, path: Path) -> Pki:
    """Return the PKI with what the revocation lists of its folder contain now.

    Raises:
        ConfigurationError: `pki.unusable`, `pki.foreign-key`.
    """
    return replace(pki, revocations=MappingProxyType({i.label: read_crl(path, i).revoked for i in pki.issuers}))


def read_crl(path: Path, issuer: Issued) -> PublishedCrl:
    """Read the revocation list of an authority.

    Raises:
        ConfigurationError: `pki.unusable`: it is damaged, or another authority signed it; `pki.foreign-key`.
    """
    file = file_inside(path, f"{issuer.label}.crl")
    if not file.exists():
        return PublishedCrl()
    try:
        crl = x509.load_der_x509_crl(read_bounded(file, max_bytes=MAX_LIST_BYTES))
        number = crl.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
        revoked = tuple(map(_revocation, crl))
        is_signed = crl.is_signature_valid(issuer.certificate.x509.public_key())  # type: ignore[arg-type]  # an issuer's key signs
    except (FormatError, ValueError, TypeError, x509.ExtensionNotFound, x509.DuplicateExtension) as e:
        raise ConfigurationError("pki.unusable", f"{file} cannot be read: restore it, or remove it") from e
    if not is_signed:
        message = f"{issuer.label} did not sign {file}: restore it, or remove it"
        raise ConfigurationError("pki.unusable", message)
    return PublishedCrl(number, revoked)


def _revocation(entry: x509.RevokedCertificate) -> Revocation:
    try:
        reason = entry.extensions.get_extension_for_class(x509.CRLReason).value.reason
    except x509.ExtensionNotFound:
        reason = x509.ReasonFlags.unspecified
    return Revocation(entry.serial_number, entry.revocation_date_utc, reason.value)


def read_manifest(path: Path) -> dict[str, Any]:
    """Read the manifest of a folder.

    Raises:
        ConfigurationError: `pki.unusable`.
    """
    try:
        raw = read_bounded(path / MANIFEST, max_bytes=_MAX_BYTES)
        manifest = parse_json(raw, what=MANIFEST, max_bytes=_MAX_BYTES)
    except FormatError as e:
        raise ConfigurationError("pki.unusable", f"{path} is not a test PKI: {e.message}; make one (pki create)") from e
    if not isinstance(manifest, dict) or not isinstance(manifest.get("files"), list):
        raise ConfigurationError("pki.unusable", f"{path / MANIFEST} is not the manifest of a test PKI")
    if not all(map(_names_a_file, manifest["files"])):
        raise ConfigurationError("pki.unusable", f"{path / MANIFEST} has an entry that names no file")
    return manifest


def _names_a_file(entry: object) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("path"), str) and isinstance(entry.get("kind"), str)


def _load_member(path: Path, name: str, key_name: str, kind: str) -> Issued:
    label = name.removesuffix(".pem")
    certificate, *chain = _load_chain(path, name)
    names = (*certificate.subject.values(oids.ORGANIZATION), *certificate.subject.values(oids.COMMON_NAME))
    if label in SIGNERS and not any(map(contains_test, names)):
        message = f"the authority {certificate.subject} lacks the word TEST in its name: it is not used to sign"
        raise ConfigurationError("pki.not-test", message)
    key = _load_key(path, key_name)
    if key.public_key() != certificate.public_key:
        raise ConfigurationError(
            "pki.foreign-key", f"{key_name} is not the key of {name}: restore the key, or make a new PKI (pki create)"
        )
    return Issued(label, kind, certificate, key, tuple(chain))


def _load_chain(path: Path, name: str) -> tuple[EidasCertificate, ...]:
    """Load a certificate, and the authorities in its chain file."""
    try:
        (certificate, *_) = load_certificates(file_inside(path, name))
        chain_file = path / f"{name.removesuffix('.pem')}-chain.pem"
        return (certificate, *(load_certificates(chain_file)[1:] if chain_file.is_file() else ()))
    except (FormatError, ValueError) as e:
        raise ConfigurationError("pki.unusable", f"{path / name} cannot be used: {e}") from e


def _load_key(path: Path, name: str) -> PrivateKey:
    try:
        return load_key(read_bounded(file_inside(path, name), max_bytes=_MAX_BYTES))
    except FormatError as e:
        raise ConfigurationError("pki.unusable", f"{path / name} cannot be used: {e.message}") from e


def file_inside(path: Path, name: str) -> Path:
    """Return the file of that name if it is in the folder itself, after links are followed.

    Raises:
        ConfigurationError: `pki.foreign-key`: it is elsewhere; `pki.unusable`: no file can have the name.
    """
    file = path / name
    try:
        place = os.path.dirname(os.path.realpath(file))  # pathlib fails on loops of links
    except ValueError as e:
        raise ConfigurationError("pki.unusable", f"{MANIFEST} names the file {name!r}") from e
    if place != os.path.realpath(path):
        raise ConfigurationError("pki.foreign-key", f"{name} is outside {path}: only files of the folder are used")
    return file
