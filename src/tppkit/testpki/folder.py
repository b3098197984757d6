"""A test PKI that stands in a folder: opened again, to issue, to revoke and to answer.

Nothing but test authorities made by this software is ever used to sign: the authority must say TEST in its name, and its key
must lie in the folder itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tppkit._clock import as_utc, format_time, parse_time
from tppkit._encoding import parse_json
from tppkit._files import locked, read_bounded, replace_file
from tppkit.certificates import EidasCertificate, EidasRequest, load_certificates
from tppkit.errors import ConfigurationError, FormatError
from tppkit.testpki.authority import CALLBACK_KEYS, Issued, Pki
from tppkit.testpki.crl import REASONS, Revocation
from tppkit.testpki.files import MANIFEST, crl_files, entry_of, files_of, manifest_json, write_files
from tppkit.testpki.keys import KeySource, PrivateKey, load_key
from tppkit.testpki.pem import PkiFile, certificate_pem
from tppkit.testpki.profiles import Provider, provider_of
from tppkit.testpki.request import kind_of, provider_of_request

REVOCATIONS = "revocations.json"
_MAX_BYTES = 4 * 1024 * 1024
_AUTHORITIES = frozenset({"root", "issuing-ca"})


@dataclass(frozen=True, slots=True)
class PkiFolder:
    """A test PKI and the folder it stands in.

    Attributes:
        path: the folder.
        pki: what stands in it, revocations included.
    """

    path: Path
    pki: Pki

    def add(self, issued: Issued) -> None:
        """Write one more certificate, and name it in the manifest.

        Raises:
            ConfigurationError: `file.exists`, `file.unwritable`, `pki.unusable`.
        """
        with locked(self.path):
            manifest = _read_manifest(self.path)
            write_files(self.path, files_of(self.pki, issued))
            manifest["files"].append(entry_of(issued))
            replace_file(self.path / MANIFEST, manifest_json(manifest))

    def issue(self, kind: str, provider: Provider, *, label: str, key: str | None = None) -> Issued:
        """One more certificate, not written yet.

        Args:
            kind: `qwac`, `qseal`, or `server` for the provider's DNS name.
            provider: whom it is for.
            label: short name.
            key: kind of its key.
        """
        if kind == "qwac":
            return self.pki.issue_qwac(provider, label=label, key=key)
        if kind == "qseal":
            return self.pki.issue_qseal(provider, label=label, key=key)
        return self.pki.issue_server(provider.dns_name, label=label)

    def add_requested(self, request: EidasRequest, *, label: str) -> EidasCertificate:
        """Issue what a request asks for, and write it: there is no key to write.

        Raises:
            ConfigurationError: `pki.request`, `file.exists`, `file.unwritable`, `pki.unusable`, and those of `make_provider`.
        """
        kind = kind_of(request)
        certificate = self.pki.issue_requested(request, provider_of_request(request), kind=kind, label=label)
        issuer = self.pki.qwac_ca if kind == "qwac" else self.pki.qseal_ca
        with locked(self.path):
            manifest = _read_manifest(self.path)
            chain = certificate_pem(certificate) + certificate_pem(issuer.certificate)
            write_files(
                self.path, [PkiFile(f"{label}.pem", certificate_pem(certificate)), PkiFile(f"{label}-chain.pem", chain)]
            )
            entry = {"path": f"{label}.pem", "kind": kind, "key_path": None, "sha256": certificate.sha256}
            manifest["files"].append(entry | {"not_after": format_time(certificate.not_after), "expected": []})
            replace_file(self.path / MANIFEST, manifest_json(manifest))
        return certificate

    def free_label(self, kind: str) -> str:
        """A label that no file has: the kind and a number."""
        return next(
            label for label in (f"{kind}-{number}" for number in count(2)) if not (self.path / f"{label}.pem").exists()
        )

    def revoke(self, certificate: EidasCertificate, *, at: datetime, reason: str = "unspecified") -> PkiFolder:
        """Revoke a certificate from a time on, and write its authority's revocation list anew.

        Args:
            certificate: one that an authority of this folder issued.
            at: since when, aware; also the time at which the new list is issued.
            reason: one of `crl.REASONS`.

        Returns:
            The folder as it is now.

        Raises:
            ConfigurationError: `pki.not-issued-here`, `pki.already-revoked`, `pki.reason`, `file.unwritable`, `pki.unusable`.
        """
        at = as_utc(at).replace(microsecond=0)
        if reason not in REASONS:
            raise ConfigurationError("pki.reason", f"the reason {reason!r} is not one of {', '.join(REASONS)}")
        with locked(self.path):
            known = dict(_read_revocations(self.path))
            issuer = _issuer_of(certificate, self.pki)
            if any(revocation.serial == certificate.serial for revocation in known.get(issuer.label, ())):
                raise ConfigurationError("pki.already-revoked", f"{certificate.subject} is revoked already")
            known[issuer.label] = (*known.get(issuer.label, ()), Revocation(certificate.serial, at, reason))
            pki = replace(self.pki, revocations=MappingProxyType(known))
            replace_file(self.path / REVOCATIONS, _revocations_json(known))
            for name, content, mode in crl_files(pki, at=at, number=1 + sum(map(len, known.values()))):
                replace_file(self.path / name, content, mode=mode)
        return PkiFolder(self.path, pki)


def open_pki(path: Path) -> PkiFolder:
    """The test PKI of a folder that `write_pki` made.

    Raises:
        ConfigurationError: `pki.unusable` (no manifest, a file missing or damaged), `pki.foreign-key` (a key lies outside the
            folder, or does not belong to its certificate), `pki.not-test` (an authority does not say TEST).
    """
    manifest = _read_manifest(path)
    members = {issued.label: issued for issued in _read_members(path, manifest["files"])}
    lacking = {"root", "issuing-ca-qwac", "issuing-ca-qseal", "qwac", "tsa"}.difference(members)
    if lacking:
        raise ConfigurationError("pki.unusable", f"{path} lacks {', '.join(sorted(lacking))}")
    qwac = members["qwac"].certificate
    other = members.get("other-qwac", members["qwac"]).certificate
    pki = Pki(
        provider=provider_of(qwac),
        other_provider=provider_of(other),
        members=MappingProxyType(members),
        callback_keys=MappingProxyType({label: _load_key(path, f"{label}.key") for label in CALLBACK_KEYS}),
        keys=KeySource(),
        not_before=qwac.not_before,
        days=(qwac.not_after - qwac.not_before).days + 1,
        revocations=_read_revocations(path),
    )
    return PkiFolder(path, pki)


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        raw = read_bounded(path / MANIFEST, max_bytes=_MAX_BYTES)
        manifest = parse_json(raw, what=MANIFEST, max_bytes=_MAX_BYTES)
    except FormatError as e:
        raise ConfigurationError("pki.unusable", f"{path} is no test PKI: {e.message}") from e
    if not isinstance(manifest, dict) or not isinstance(manifest.get("files"), list):
        raise ConfigurationError("pki.unusable", f"{path / MANIFEST} is no manifest of a test PKI")
    return manifest


def _read_members(path: Path, entries: list[Any]) -> Iterator[Issued]:
    for entry in entries:
        if (
            not isinstance(entry, dict)
            or not isinstance(entry.get("path"), str)
            or not isinstance(entry.get("kind"), str)
        ):
            raise ConfigurationError("pki.unusable", f"{path / MANIFEST} has an entry that names no file")
        if entry["kind"] != "fault" and entry["path"].endswith(".pem") and isinstance(entry.get("key_path"), str):
            yield _read_member(path, entry["path"], entry["key_path"], entry["kind"])


def _read_member(path: Path, name: str, key_name: str, kind: str) -> Issued:
    label = name.removesuffix(".pem")
    try:
        (certificate, *_) = load_certificates(_inside(path, name))
        chain_file = path / f"{label}-chain.pem"
        chain = load_certificates(chain_file)[1:] if chain_file.is_file() else ()
    except (FormatError, ValueError) as e:
        raise ConfigurationError("pki.unusable", f"{path / name} cannot be used: {e}") from e
    if kind in _AUTHORITIES and "TEST" not in str(certificate.subject):
        raise ConfigurationError(
            "pki.not-test", f"the authority {certificate.subject} does not say TEST: it is not used to sign"
        )
    key = _load_key(path, key_name)
    if key.public_key() != certificate.public_key:
        raise ConfigurationError("pki.foreign-key", f"{key_name} is not the key of {name}")
    return Issued(label, kind, certificate, key, chain)


def _inside(path: Path, name: str) -> Path:
    """The file of that name, when it lies in the folder itself."""
    file = path / name
    if file.resolve().parent != path.resolve():
        raise ConfigurationError(
            "pki.foreign-key", f"{name} lies outside {path}: only what stands in the folder is used"
        )
    return file


def _load_key(path: Path, name: str) -> PrivateKey:
    try:
        return load_key(read_bounded(_inside(path, name), max_bytes=_MAX_BYTES))
    except FormatError as e:
        raise ConfigurationError("pki.unusable", f"{path / name} cannot be used: {e.message}") from e


def _issuer_of(certificate: EidasCertificate, pki: Pki) -> Issued:
    for issuer in pki.issuers:
        named = certificate.extensions.authority_key_identifier == issuer.key_identifier
        if (
            named
            and certificate.issuer == issuer.certificate.subject
            and certificate.sha256 != issuer.certificate.sha256
        ):
            return issuer
    raise ConfigurationError(
        "pki.not-issued-here", f"{certificate.subject} was not issued by an authority of this folder"
    )


def _read_revocations(path: Path) -> Mapping[str, tuple[Revocation, ...]]:
    file = path / REVOCATIONS
    if not file.exists():
        return MappingProxyType({})
    try:
        raw = parse_json(read_bounded(file, max_bytes=_MAX_BYTES), what=REVOCATIONS, max_bytes=_MAX_BYTES)
        return MappingProxyType({
            label: tuple(Revocation(int(e["serial_hex"], 16), parse_time(e["at"]), e["reason"]) for e in entries)
            for label, entries in raw.items()
        })  # fmt: skip
    except (FormatError, AttributeError, KeyError, TypeError, ValueError) as e:
        raise ConfigurationError("pki.unusable", f"{file} cannot be read") from e


def _revocations_json(known: Mapping[str, tuple[Revocation, ...]]) -> bytes:
    lines = {
        label: [{"serial_hex": f"{r.serial:X}", "at": format_time(r.at), "reason": r.reason} for r in revocations]
        for label, revocations in known.items()
    }
    return (json.dumps(lines, indent=2) + "\n").encode()
