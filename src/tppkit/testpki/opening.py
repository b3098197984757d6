"""A test PKI read from the folder that it was written to.

Nothing but test authorities made by this software is ever used to sign: the authority must say TEST in its name, and its key
must lie in the folder itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tppkit._encoding import parse_json
from tppkit._files import read_bounded
from tppkit.certificates import EidasCertificate, load_certificates, oids
from tppkit.errors import ConfigurationError, FormatError
from tppkit.testpki.authority import Pki
from tppkit.testpki.creation import CALLBACK_KEYS
from tppkit.testpki.files import MANIFEST
from tppkit.testpki.issued import Issued, is_issued_by
from tppkit.testpki.keys import KeySource, PrivateKey, kind_of_key, load_key
from tppkit.testpki.profiles import SERVICES_URL, policy_of, says_test
from tppkit.testpki.provider import provider_of
from tppkit.testpki.revocations import read_journal, revoked_by

_MAX_BYTES = 4 * 1024 * 1024
_AUTHORITIES = frozenset({"root", "issuing-ca"})
# Who signs for the PKI, and who issued each; a signer of lists, like the root, vouches for itself.
_ISSUERS: Mapping[str, str] = MappingProxyType(
    {
        "root": "root", "issuing-ca-qwac": "root", "issuing-ca-qseal": "root", "ocsp-qwac": "issuing-ca-qwac",
        "ocsp-qseal": "issuing-ca-qseal", "tsa": "issuing-ca-qseal", "lotl-signer": "lotl-signer", "list-signer": "list-signer",
    }
)  # fmt: skip


def read_pki(path: Path) -> Pki:
    """The test PKI of a folder that `write_pki` made.

    Raises:
        ConfigurationError: `pki.unusable` (no manifest, a file missing or damaged), `pki.foreign-key` (a key lies outside the
            folder, or does not belong to its certificate), `pki.not-test` (an authority does not say TEST).
    """
    entries = _read_entries(path)
    members = {issued.label: issued for issued in _read_members(path, entries)}
    lacking = {"root", "issuing-ca-qwac", "issuing-ca-qseal", "qwac", "qseal", "tsa"}.difference(members)
    if lacking:
        raise ConfigurationError("pki.unusable", f"{path} lacks {', '.join(sorted(lacking))}")
    for label in _ISSUERS.keys() & members.keys():
        _require_below(members[label], members[_ISSUERS[label]])
    qwac, qseal = members["qwac"].certificate, members["qseal"].certificate
    other = members.get("other-qwac", members["qwac"]).certificate
    ocsp_url = next(iter(qwac.extensions.ocsp_urls), f"{SERVICES_URL}/ocsp")
    return Pki(
        provider=provider_of(qwac),
        other_provider=provider_of(other),
        members=MappingProxyType(members),
        callback_keys=MappingProxyType({label: _load_key(path, f"{label}.key") for label in CALLBACK_KEYS}),
        keys=KeySource(kind_of_key(members["qwac"].key)),
        not_before=qwac.not_before,
        days=(qwac.not_after - qwac.not_before).days + 1,
        revocations=revoked_by(read_journal(path)),
        services_url=ocsp_url.removesuffix("/ocsp"),
        policy=policy_of(qwac),
        qscd=qseal.qc.sscd,
        seal_key=kind_of_key(members["qseal"].key),
        requested=tuple(_read_requested(path, entries)),
    )


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of a folder.

    Raises:
        ConfigurationError: `pki.unusable`.
    """
    try:
        raw = read_bounded(path / MANIFEST, max_bytes=_MAX_BYTES)
        manifest = parse_json(raw, what=MANIFEST, max_bytes=_MAX_BYTES)
    except FormatError as e:
        raise ConfigurationError("pki.unusable", f"{path} is no test PKI: {e.message}") from e
    if not isinstance(manifest, dict) or not isinstance(manifest.get("files"), list):
        raise ConfigurationError("pki.unusable", f"{path / MANIFEST} is no manifest of a test PKI")
    if not all(map(_names_a_file, manifest["files"])):
        raise ConfigurationError("pki.unusable", f"{path / MANIFEST} has an entry that names no file")
    return manifest


def _names_a_file(entry: object) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("path"), str) and isinstance(entry.get("kind"), str)


def _read_entries(path: Path) -> list[dict[str, Any]]:
    """The manifest's entries of certificates that are no faults."""
    entries = read_manifest(path)["files"]
    return [entry for entry in entries if entry["kind"] != "fault" and entry["path"].endswith(".pem")]


def _read_members(path: Path, entries: list[dict[str, Any]]) -> Iterator[Issued]:
    for entry in entries:
        if isinstance(entry.get("key_path"), str):
            yield _read_member(path, entry["path"], entry["key_path"], entry["kind"])


def _read_requested(path: Path, entries: list[dict[str, Any]]) -> Iterator[EidasCertificate]:
    for entry in entries:
        if not isinstance(entry.get("key_path"), str):
            yield _read_chain(path, entry["path"])[0]


def _read_chain(path: Path, name: str) -> tuple[EidasCertificate, ...]:
    """The certificate of that name, and the authorities that its chain file has behind it."""
    try:
        (certificate, *_) = load_certificates(file_inside(path, name))
        chain_file = path / f"{name.removesuffix('.pem')}-chain.pem"
        return (certificate, *(load_certificates(chain_file)[1:] if chain_file.is_file() else ()))
    except (FormatError, ValueError) as e:
        raise ConfigurationError("pki.unusable", f"{path / name} cannot be used: {e}") from e


def _read_member(path: Path, name: str, key_name: str, kind: str) -> Issued:
    label = name.removesuffix(".pem")
    certificate, *chain = _read_chain(path, name)
    names = (*certificate.subject.values(oids.ORGANIZATION), *certificate.subject.values(oids.COMMON_NAME))
    if (kind in _AUTHORITIES or label in _ISSUERS) and not any(map(says_test, names)):
        raise ConfigurationError(
            "pki.not-test", f"the authority {certificate.subject} does not say TEST: it is not used to sign"
        )
    key = _load_key(path, key_name)
    if key.public_key() != certificate.public_key:
        raise ConfigurationError("pki.foreign-key", f"{key_name} is not the key of {name}")
    return Issued(label, kind, certificate, key, tuple(chain))


def _require_below(signer: Issued, issuer: Issued) -> None:
    """Refuse a signer of another hierarchy: whoever believes the root of this folder would not believe it."""
    if not is_issued_by(signer.certificate, issuer.certificate):
        message = f"{signer.label} was not issued by {issuer.label} of this folder: it is not used to sign"
        raise ConfigurationError("pki.foreign-key", message)


def file_inside(path: Path, name: str) -> Path:
    """The file of that name, when it lies in the folder itself, also where a link leads.

    Raises:
        ConfigurationError: `pki.foreign-key`: it lies elsewhere; `pki.unusable`: no file can have the name.
    """
    file = path / name
    try:
        place = os.path.dirname(os.path.realpath(file))  # pathlib fails on loops of links
    except ValueError as e:
        raise ConfigurationError("pki.unusable", f"{MANIFEST} names the file {name!r}") from e
    if place != os.path.realpath(path):
        raise ConfigurationError(
            "pki.foreign-key", f"{name} lies outside {path}: only what stands in the folder is used"
        )
    return file


def _load_key(path: Path, name: str) -> PrivateKey:
    try:
        return load_key(read_bounded(file_inside(path, name), max_bytes=_MAX_BYTES))
    except FormatError as e:
        raise ConfigurationError("pki.unusable", f"{path / name} cannot be used: {e.message}") from e
