"""A test PKI that stands in a folder: opened again, to issue, to revoke and to answer.

Nothing but test authorities made by this software is ever used to sign: the authority must say TEST in its name, and its key
must lie in the folder itself.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
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
from tppkit.testpki.authority import CALLBACK_KEYS, Pki
from tppkit.testpki.crl import REASONS, Revocation
from tppkit.testpki.files import (
    ENDINGS,
    MANIFEST,
    certificate_entry,
    crl_files,
    entry_of,
    files_of,
    manifest_json,
    write_files,
)
from tppkit.testpki.issued import Issued
from tppkit.testpki.keys import KeySource, PrivateKey, kind_of_key, load_key
from tppkit.testpki.pem import PkiFile, certificate_pem
from tppkit.testpki.profiles import SERVICES_URL, policy_of
from tppkit.testpki.provider import Provider, provider_of
from tppkit.testpki.request import kind_of, provider_of_request

REVOCATIONS = "revocations.json"
_MAX_BYTES = 4 * 1024 * 1024
_AUTHORITIES = frozenset({"root", "issuing-ca"})
_SIGNERS = frozenset({
    "root", "issuing-ca-qwac", "issuing-ca-qseal", "ocsp-qwac", "ocsp-qseal", "tsa", "lotl-signer", "list-signer",
})  # fmt: skip
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class PkiFolder:
    """A test PKI and the folder it stands in.

    Attributes:
        path: the folder.
        pki: what stands in it, revocations included.
    """

    path: Path
    pki: Pki

    def issue(self, kind: str, provider: Provider, *, label: str | None = None, key: str | None = None) -> Issued:
        """Issue one more certificate, and write it: all of its files or none.

        Args:
            kind: `qwac`, `qseal`, or `server` for the provider's DNS name.
            provider: whom it is for.
            label: stem of its files; the kind and the first free number by default.
            key: kind of its key, one of `testpki.KEY_KINDS`, of a QSealC one of `testpki.SEAL_KEY_KINDS`.

        Raises:
            ConfigurationError: `pki.label`, `pki.key-kind`, `file.exists`, `file.unwritable`, `pki.unusable`.
        """
        with locked(self.path):
            issued = self._make(kind, provider, self._new_label(label, kind), key)
            self._write(files_of(self.pki, issued), entry_of(issued))
        return issued

    def issue_requested(self, request: EidasRequest, *, label: str | None = None) -> dict[str, Any]:
        """Issue what a request asks for, and write it: there is no key to write.

        Returns:
            The manifest's entry.

        Raises:
            ConfigurationError: `pki.request`, `pki.label`, `file.exists`, `file.unwritable`, `pki.unusable`, and those of
                `make_provider`.
        """
        kind, provider = kind_of(request), provider_of_request(request)
        issuer = self.pki.qwac_ca if kind == "qwac" else self.pki.qseal_ca
        with locked(self.path):
            label = self._new_label(label, kind)
            certificate = self.pki.issue_requested(request, provider, kind=kind, label=label)
            pem = certificate_pem(certificate)
            files = [
                PkiFile(f"{label}.pem", pem),
                PkiFile(f"{label}-chain.pem", pem + certificate_pem(issuer.certificate)),
            ]
            entry = certificate_entry(certificate, label=label, kind=kind, further=[files[1].name])
            self._write(files, entry)
        return entry

    def _make(self, kind: str, provider: Provider, label: str, key: str | None) -> Issued:
        if kind == "qwac":
            return self.pki.issue_qwac(provider, label=label, key=key)
        if kind == "qseal":
            return self.pki.issue_qseal(provider, label=label, key=key)
        return self.pki.issue_server(provider.dns_name, label=label, key=key)

    def _new_label(self, label: str | None, kind: str) -> str:
        if label is None:
            return next(free for free in (f"{kind}-{number}" for number in count(2)) if not self._is_taken(free))
        if not _LABEL.fullmatch(label):
            raise ConfigurationError(
                "pki.label", f"the label {label[:80]!r} is not 1 to 64 letters, digits, dots, hyphens and underscores"
            )
        if self._is_taken(label):
            raise ConfigurationError("file.exists", f"{self.path} has a certificate {label} already")
        return label

    def _is_taken(self, label: str) -> bool:
        return any((self.path / f"{label}{ending}").exists() for ending in ENDINGS)

    def _write(self, files: Iterable[PkiFile], entry: Mapping[str, Any]) -> None:
        """Write the files of one more certificate and name it in the manifest, or leave all as it was."""
        manifest, written = _read_manifest(self.path), list[Path]()
        try:
            for file in files:
                write_files(self.path, [file])
                written.append(self.path / file.name)
            replace_file(self.path / MANIFEST, manifest_json({**manifest, "files": [*manifest["files"], entry]}))
        except ConfigurationError:
            for path in written:
                path.unlink(missing_ok=True)
            raise

    def revoke(
        self, certificate: EidasCertificate, *, at: datetime, reason: str = "unspecified", now: datetime | None = None
    ) -> PkiFolder:
        """Revoke a certificate from a time on, and write its authority's revocation list anew.

        Args:
            certificate: one that an authority of this folder issued.
            at: since when, aware.
            reason: one of `crl.REASONS`.
            now: when the new lists are issued, aware; `at` by default, and never before what stands in them.

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
            # Lists go forward in time whatever was revoked since when, so that none forgets what an earlier one had.
            issued = max([as_utc(now or at), *(one.at for revocations in known.values() for one in revocations)])
            for name, content, mode in crl_files(pki, at=issued, number=1 + sum(map(len, known.values()))):
                replace_file(self.path / name, content, mode=mode)
        return PkiFolder(self.path, pki)


def open_pki(path: Path) -> PkiFolder:
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
    qwac, qseal = members["qwac"].certificate, members["qseal"].certificate
    other = members.get("other-qwac", members["qwac"]).certificate
    ocsp_url = next(iter(qwac.extensions.ocsp_urls), f"{SERVICES_URL}/ocsp")
    pki = Pki(
        provider=provider_of(qwac),
        other_provider=provider_of(other),
        members=MappingProxyType(members),
        callback_keys=MappingProxyType({label: _load_key(path, f"{label}.key") for label in CALLBACK_KEYS}),
        keys=KeySource(kind_of_key(members["qwac"].key)),
        not_before=qwac.not_before,
        days=(qwac.not_after - qwac.not_before).days + 1,
        revocations=_read_revocations(path),
        services_url=ocsp_url.removesuffix("/ocsp"),
        policy=policy_of(qwac),
        qscd=qseal.qc.sscd,
        seal_key=kind_of_key(members["qseal"].key),
        requested=tuple(_read_requested(path, entries)),
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


def _read_entries(path: Path) -> list[dict[str, Any]]:
    """The manifest's entries of certificates that are no faults."""
    entries = _read_manifest(path)["files"]
    for entry in entries:
        if (
            not isinstance(entry, dict)
            or not isinstance(entry.get("path"), str)
            or not isinstance(entry.get("kind"), str)
        ):
            raise ConfigurationError("pki.unusable", f"{path / MANIFEST} has an entry that names no file")
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
        (certificate, *_) = load_certificates(_inside(path, name))
        chain_file = path / f"{name.removesuffix('.pem')}-chain.pem"
        return (certificate, *(load_certificates(chain_file)[1:] if chain_file.is_file() else ()))
    except (FormatError, ValueError) as e:
        raise ConfigurationError("pki.unusable", f"{path / name} cannot be used: {e}") from e


def _read_member(path: Path, name: str, key_name: str, kind: str) -> Issued:
    label = name.removesuffix(".pem")
    certificate, *chain = _read_chain(path, name)
    if (kind in _AUTHORITIES or label in _SIGNERS) and "TEST" not in str(certificate.subject):
        raise ConfigurationError(
            "pki.not-test", f"the authority {certificate.subject} does not say TEST: it is not used to sign"
        )
    key = _load_key(path, key_name)
    if key.public_key() != certificate.public_key:
        raise ConfigurationError("pki.foreign-key", f"{key_name} is not the key of {name}")
    return Issued(label, kind, certificate, key, tuple(chain))


def _inside(path: Path, name: str) -> Path:
    """The file of that name, when it lies in the folder itself."""
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
            label: tuple(map(_revocation, entries)) for label, entries in raw.items()
        })  # fmt: skip
    except (FormatError, AttributeError, KeyError, TypeError, ValueError) as e:
        raise ConfigurationError("pki.unusable", f"{file} cannot be read") from e


def _revocation(entry: Mapping[str, str]) -> Revocation:
    if entry["reason"] not in REASONS:
        raise ValueError("an unknown reason")
    return Revocation(int(entry["serial_hex"], 16), parse_time(entry["at"]), entry["reason"])


def _revocations_json(known: Mapping[str, tuple[Revocation, ...]]) -> bytes:
    lines = {
        label: [{"serial_hex": f"{r.serial:X}", "at": format_time(r.at), "reason": r.reason} for r in revocations]
        for label, revocations in known.items()
    }
    return (json.dumps(lines, indent=2) + "\n").encode()
