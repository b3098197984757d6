"""A test PKI that stands in a folder: opened again, to issue, to revoke and to answer."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any

from tppkit._clock import as_utc, format_time
from tppkit._files import FilePath, as_path, locked, remove_leftovers, replace_file
from tppkit.certificates import EidasCertificate, EidasRequest
from tppkit.errors import ConfigurationError
from tppkit.testpki.authority import Pki
from tppkit.testpki.crl import HOLD, NO_LONGER, Revocation
from tppkit.testpki.files import (
    ENDINGS,
    MANIFEST,
    certificate_entry,
    entry_of,
    files_of,
    manifest_json,
    write_files,
)
from tppkit.testpki.issued import Issued
from tppkit.testpki.opening import read_manifest, read_pki
from tppkit.testpki.pem import PkiFile, certificate_pem
from tppkit.testpki.provider import Provider
from tppkit.testpki.publishing import (
    are_crls_current,
    ends_soon,
    publish_crls,
    publish_trusted_lists,
    require_publishable,
)
from tppkit.testpki.requests import Dropped, asks_for_ev, certify_request, find_dropped, kind_of
from tppkit.testpki.revocations import REVOCATIONS, Journal, journal_json, read_journal, revoked_by, with_act
from tppkit.testpki.revoking import find_revocation, issuer_of, require_revocable, was_lifted

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

    def issue(
        self,
        kind: str,
        provider: Provider,
        *,
        at: datetime,
        days: int | None = None,
        policy: str | None = None,
        qscd: bool | None = None,
        label: str | None = None,
        key: str | None = None,
        now: datetime | None = None,
    ) -> Issued:
        """Issue one more certificate, and write it: all of its files or none.

        Args:
            kind: `qwac`, `qseal`, or `server` for the provider's DNS name.
            provider: whom it is for.
            at: it is valid from midnight UTC of this day, aware.
            days: its validity; that of the first ones by default, or what is left of its authority's.
            policy: of a QWAC, one of `profiles.QWAC_POLICIES`; the PKI's own by default.
            qscd: a QSealC states a qualified device; as the PKI's own by default.
            label: stem of its files; the kind and the first free number by default.
            key: kind of its key, one of `testpki.KEY_KINDS`, of a QSealC one of `testpki.SEAL_KEY_KINDS`.
            now: the present, aware: lists that end soon are signed anew, too; None leaves them as they are.

        Raises:
            ConfigurationError: `pki.days`, `pki.policy`, `pki.profile`, `pki.label`, `pki.key-kind`, `file.exists`, `file.unwritable`,
                `pki.unusable`.
        """
        pki = self.pki.issuing_from(at, days=days, policy=policy, qscd=qscd)
        with locked(self.path):
            issued = _make(pki, kind, provider, self._new_label(label, kind), key)
            self._write(files_of(pki, issued), entry_of(issued))
            if now is not None:
                self._keep_current(as_utc(now))
        return issued

    def issue_requested(
        self,
        request: EidasRequest,
        *,
        at: datetime,
        days: int | None = None,
        label: str | None = None,
        kind: str | None = None,
        now: datetime | None = None,
    ) -> tuple[dict[str, Any], tuple[Dropped, ...]]:
        """Issue what a request asks for, and write it: there is no key to write.

        Subject, DNS names, roles and key are those of the request; so are the policy ev and the qualified device where it asks
        for them. Addresses, policies and disclosure statements are the authority's. Names, keys and statements that this PKI
        does not issue are refused; all else that it does not is dropped, and told.

        Args:
            request: the request.
            at: as for `issue`.
            days: as for `issue`.
            label: as for `issue`.
            kind: `qwac` or `qseal`, for a request that does not say it.
            now: as for `issue`.

        Returns:
            The manifest's entry, and what of the request the certificate lacks.

        Raises:
            ConfigurationError: `pki.request`, `pki.key-kind`, `pki.foreign-key` (a member of the PKI has the key), `pki.days`,
                `pki.ended`, `pki.profile`, `pki.dns-name`, `pki.label`, `file.exists`, `file.unwritable`, `pki.unusable`, and those of
                `make_provider`.
        """
        kind = kind_of(request, stated=kind)
        policy = "ev" if kind == "qwac" and asks_for_ev(request) else "gen"
        pki = self.pki.issuing_from(at, days=days, policy=policy, qscd=request.qc.sscd)
        issuer = pki.qwac_ca if kind == "qwac" else pki.qseal_ca
        with locked(self.path):
            label = self._new_label(label, kind)
            certificate = certify_request(pki, request, kind=kind, label=label)
            pem = certificate_pem(certificate)
            chain = PkiFile(f"{label}-chain.pem", pem + certificate_pem(issuer.certificate))
            entry = certificate_entry(certificate, label=label, kind=kind, further=[chain.name])
            self._write([PkiFile(f"{label}.pem", pem), chain], entry)
            if now is not None:
                self._keep_current(as_utc(now))
        return entry, find_dropped(request, certificate)

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
        """Write the files of one more certificate and name it in the manifest, or leave all as it was, also when interrupted."""
        manifest, files = read_manifest(self.path), list(files)
        for file in files:  # so that all that is there after a failure is ours: the folder is locked
            if os.path.lexists(self.path / file.name):
                raise ConfigurationError("file.exists", f"{self.path / file.name} exists and is not overwritten")
        remove_leftovers(self.path / MANIFEST)
        try:
            write_files(self.path, files)
            replace_file(self.path / MANIFEST, manifest_json({**manifest, "files": [*manifest["files"], entry]}))
        except BaseException:
            if not _is_named(entry, self.path):
                for file in files:
                    (self.path / file.name).unlink(missing_ok=True)
            raise

    def revocation_of(self, certificate: EidasCertificate) -> Revocation | None:
        """Since when and why a certificate of this PKI is revoked, or None.

        Raises:
            ConfigurationError: `pki.not-issued-here`.
        """
        return find_revocation(self.pki.revocations, issuer_of(certificate, self.pki), certificate)

    def revoke(
        self, certificate: EidasCertificate, *, at: datetime, reason: str = "unspecified", now: datetime | None = None
    ) -> PkiFolder:
        """Revoke a certificate from a time on, or make a hold final, and write the revocation lists anew.

        What was on hold is revoked since it was (X.509, reason code extension), whatever `at` is.

        Args:
            certificate: one that an authority of this folder issued.
            at: since when, aware; not later than `now`.
            reason: one of `crl.REASONS` but `removeFromCRL`.
            now: when the new lists are issued, aware; `at` by default.

        Returns:
            The folder as it is now.

        Raises:
            ConfigurationError: `pki.not-issued-here`, `pki.already-revoked`, `pki.reason`, `pki.revocation-time`,
                `file.unwritable`, `pki.unusable`.
        """
        at, now = as_utc(at).replace(microsecond=0), as_utc(now or at)
        require_revocable(certificate, at=at, now=now, reason=reason)
        with locked(self.path):
            journal, issuer = read_journal(self.path), issuer_of(certificate, self.pki)
            before = find_revocation(revoked_by(journal), issuer, certificate)
            if before is not None and (before.reason != HOLD or reason == HOLD):
                is_unfinished = self._finish(journal, now)
                if is_unfinished and before.reason == reason:
                    return self._with(journal)
                message = f"{certificate.subject} is revoked already since {format_time(before.at)} ({before.reason})"
                raise ConfigurationError("pki.already-revoked", message)
            act = Revocation(certificate.serial, before.at if before else at, reason)
            return self._record(with_act(journal, issuer.label, act), now)

    def lift(self, certificate: EidasCertificate, *, now: datetime) -> PkiFolder:
        """End a hold: the certificate is no longer revoked, and the revocation lists are written anew without it.

        Args:
            certificate: one on hold.
            now: when the new lists are issued, aware.

        Returns:
            The folder as it is now.

        Raises:
            ConfigurationError: `pki.not-issued-here`, `pki.not-on-hold`, `file.unwritable`, `pki.unusable`.
        """
        now = as_utc(now).replace(microsecond=0)
        with locked(self.path):
            journal, issuer = read_journal(self.path), issuer_of(certificate, self.pki)
            before = find_revocation(revoked_by(journal), issuer, certificate)
            if before is None or before.reason != HOLD:
                is_unfinished = self._finish(journal, now)
                if is_unfinished and was_lifted(journal, issuer, certificate):
                    return self._with(journal)
                state = f"revoked for good ({before.reason})" if before else "not revoked"
                raise ConfigurationError(
                    "pki.not-on-hold", f"{certificate.subject} is {state}: there is no hold to lift"
                )
            return self._record(with_act(journal, issuer.label, Revocation(certificate.serial, now, NO_LONGER)), now)

    def renew(self, *, now: datetime) -> tuple[str, ...]:
        """Sign all revocation lists and trusted lists anew; the names of their files.

        Args:
            now: when they are issued, aware.

        Raises:
            ConfigurationError: `file.unwritable`, `pki.unusable`, `pki.foreign-key`.
        """
        with locked(self.path):
            pki = self._with(read_journal(self.path)).pki
            return (*publish_crls(self.path, pki, now=now), *publish_trusted_lists(self.path, pki, now=now))

    def keep_current(self, *, now: datetime) -> tuple[str, ...]:
        """Sign anew what ends soon, and finish a revocation that was cut short; the names of the files that are new.

        Arguments and errors as for `renew`.
        """
        with locked(self.path):
            return self._keep_current(as_utc(now))

    def _keep_current(self, now: datetime) -> tuple[str, ...]:
        pki = self._with(read_journal(self.path)).pki
        crls_end, lists_end = ends_soon(self.path, pki, now=now)
        crls = publish_crls(self.path, pki, now=now) if crls_end or not are_crls_current(self.path, pki) else ()
        return (*crls, *(publish_trusted_lists(self.path, pki, now=now) if lists_end else ()))

    def _record(self, journal: Journal, now: datetime) -> PkiFolder:
        # The journal is written first and never taken back: what fails after it is finished by the same command again, and by
        # every other that changes or serves the folder. A list, once out, may have been read.
        after = self._with(journal)
        require_publishable(after.pki, now=now)
        replace_file(self.path / REVOCATIONS, journal_json(journal))
        publish_crls(self.path, after.pki, now=now)
        after._keep_current(now)
        return after

    def _finish(self, journal: Journal, now: datetime) -> bool:
        """Write the lists that an act in the journal lacks; whether there were any."""
        pki = self._with(journal).pki
        if are_crls_current(self.path, pki):
            return False
        publish_crls(self.path, pki, now=now)
        return True

    def _with(self, journal: Journal) -> PkiFolder:
        return PkiFolder(self.path, replace(self.pki, revocations=revoked_by(journal)))


def open_pki(path: FilePath) -> PkiFolder:
    """The test PKI of a folder that `write_pki` made.

    Raises:
        ConfigurationError: `pki.unusable` (no manifest, a file missing or damaged), `pki.foreign-key` (a key lies outside the
            folder, or does not belong to its certificate), `pki.not-test` (an authority does not say TEST).
    """
    folder = as_path(path)
    return PkiFolder(folder, read_pki(folder))


def _is_named(entry: Mapping[str, Any], path: Path) -> bool:
    """Whether the manifest, which is replaced in one step, names what an interrupt came after."""
    return entry in read_manifest(path)["files"]


def _make(pki: Pki, kind: str, provider: Provider, label: str, key: str | None) -> Issued:
    if kind == "qwac":
        return pki.issue_qwac(provider, label=label, key=key)
    if kind == "qseal":
        return pki.issue_qseal(provider, label=label, key=key)
    return pki.issue_server(provider.dns_name, label=label, key=key)
