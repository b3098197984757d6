"""A test PKI in a folder: issue, revoke, and renew its lists.

The revocation lists in the folder are the only record of what is revoked. Only test authorities ever sign: the name of an authority
must contain the word TEST, its key must be in the folder itself, and the root of the folder must have issued it.

Sources: RFC 5280 sections 5.1.2.4, 5.2.3 and 5.3.1 (thisUpdate, CRL number, reasons), ETSI TS 119 612 clauses 5.3.2 and 5.3.15
(sequence number, next update).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from types import MappingProxyType

from tppkit._clock import as_utc, format_time, parse_time, shift
from tppkit._files import FilePath, as_path, locked, read_bounded, remove_leftovers, replace_file
from tppkit._locals import without_locals
from tppkit.certificates import EidasCertificate
from tppkit.certificates.certificate import EidasRequest
from tppkit.errors import ConfigurationError, FormatError
from tppkit.testpki.certificate import Issued, is_issued_by
from tppkit.testpki.crl import HOLD, NO_LONGER, REASONS, Revocation
from tppkit.testpki.files import (
    ENDINGS,
    TRUSTED_LISTS,
    entry_of,
    files_of,
    revocation_lists,
    sha256_of,
    trusted_lists,
    write_files,
)
from tppkit.testpki.manifest import (
    MANIFEST,
    MAX_LIST_BYTES,
    Entry,
    PkiFile,
    load_pki,
    make_entry,
    manifest_json,
    read_crl,
    read_manifest,
    with_revocations,
)
from tppkit.testpki.pem import certificate_pem
from tppkit.testpki.pki import Pki
from tppkit.testpki.provider import Provider
from tppkit.testpki.requests import asks_for_ev, certify_request, kind_of
from tppkit.testpki.trusted_lists import LIST_DAYS, LIST_FILES

_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SKEW = timedelta(minutes=5)  # by which the clocks of several machines may differ
_SEQUENCE_NUMBER = re.compile(rb"<TSLSequenceNumber>([0-9]{1,9})</TSLSequenceNumber>")


@dataclass(frozen=True, slots=True)
class PkiFolder:
    """A test PKI and its folder.

    folder = open_pki("certs")
    folder.issue("qwac", make_provider(), at=utc_now())
    folder = folder.revoke(folder.pki.qwac.certificate, at=utc_now(), reason="keyCompromise")

    Attributes:
        path: The folder.
        pki: The PKI that it contains, with what is revoked.
    """

    path: Path
    pki: Pki

    def issue(
        self, kind: str, provider: Provider, *, at: datetime, days: int | None = None, policy: str | None = None,
        qscd: bool | None = None, label: str | None = None, key: str | None = None,
    ) -> Issued:  # fmt: skip
        """Issue one more certificate and write all of its files, or none.

        Args:
            kind: `qwac`, `qseal`, or `server` for the provider's DNS name.
            provider: The provider that it names.
            at: It is valid from midnight UTC of this day, aware.
            days: Its validity; by default that of the first certificates, or what is left of its authority's.
            policy: Policy of a QWAC, one of `profiles.QWAC_POLICIES`; that of the PKI by default.
            qscd: A QSealC states a qualified device; as in the PKI by default.
            label: Stem of its files; the kind and the first free number by default.
            key: Kind of its key, one of `testpki.keys.KEY_KINDS`, for a QSealC one of `testpki.keys.SEAL_KEY_KINDS`.

        Raises:
            ConfigurationError: `pki.days`, `pki.policy`, `pki.profile`, `pki.label`, `pki.key-kind`, `file.exists`, `file.unwritable`,
                `pki.unusable`.
        """
        pki = self.pki.issuing_from(at, days=days, policy=policy, qscd=qscd)
        with locked(self.path):
            label = self._new_label(label, kind)
            if kind == "server":
                issued = pki.issue_server(provider.dns_name, label=label, key=key)
            else:
                issued = pki.issue_leaf(kind, provider, label=label, key=key)
            self._add(files_of(pki, issued), entry_of(issued))
        return issued

    def issue_requested(
        self, request: EidasRequest, *, at: datetime, days: int | None = None, label: str | None = None
    ) -> Entry:
        """Issue the certificate that a request asks for, and write it; there is no key to write.

        Subject, DNS names, roles and key are those of the request, and so are the policy `ev` and the qualified device if it asks
        for them. Addresses and disclosure statements are those of the authority.

        Args:
            request: The request.
            at: As for `issue`.
            days: As for `issue`.
            label: As for `issue`.

        Returns:
            The manifest's entry.

        Raises:
            ConfigurationError: As `requests.certify_request`; `pki.days`, `pki.ended`, `pki.label`, `file.exists`,
                `file.unwritable`, `pki.unusable`.
        """
        kind = kind_of(request)
        policy = "ev" if kind == "qwac" and asks_for_ev(request) else "gen"
        pki = self.pki.issuing_from(at, days=days, policy=policy, qscd=request.qc.sscd)
        with locked(self.path):
            label = self._new_label(label, kind)
            certificate = certify_request(pki, request, kind=kind, label=label)
            pem = certificate_pem(certificate)
            chain = PkiFile(f"{label}-chain.pem", pem + certificate_pem(pki.issuer_of(kind).certificate))
            entry = make_entry(f"{label}.pem", kind, certificate.sha256, certificate.not_after, further=[chain.name])
            self._add([PkiFile(f"{label}.pem", pem), chain], entry)
        return entry

    def _new_label(self, label: str | None, kind: str) -> str:
        if label is None:
            return next(free for free in (f"{kind}-{number}" for number in count(2)) if not self._is_taken(free))
        if not _LABEL.fullmatch(label):
            message = f"the label {label[:80]!r} is not 1 to 64 letters, digits, dots, hyphens and underscores"
            raise ConfigurationError("pki.label", message)
        if self._is_taken(label):
            raise ConfigurationError(
                "file.exists", f"{self.path} has a certificate {label} already: give another label"
            )
        return label

    def _is_taken(self, label: str) -> bool:
        return any(os.path.lexists(self.path / f"{label}{ending}") for ending in ENDINGS)

    def _add(self, files: Iterable[PkiFile], entry: Entry) -> None:
        """Write new files and name them in the manifest. If that fails or is interrupted, none of them is left."""
        manifest, files = read_manifest(self.path), list(files)
        remove_leftovers(self.path / MANIFEST)
        try:
            write_files(self.path, files)
            replace_file(self.path / MANIFEST, manifest_json({**manifest, "files": [*manifest["files"], entry]}))
        except BaseException:
            if entry not in read_manifest(self.path)["files"]:  # the interrupt came before the manifest was replaced
                for file in files:
                    (self.path / file.name).unlink(missing_ok=True)
            raise

    def revocation_of(self, certificate: EidasCertificate) -> Revocation | None:
        """Return the revocation of a certificate of this PKI, or None.

        Raises:
            ConfigurationError: `pki.not-issued-here`.
        """
        revoked = self.pki.revocations.get(self._issuer_of(certificate).label, ())
        return next((one for one in revoked if one.serial == certificate.serial), None)

    def revoke(
        self, certificate: EidasCertificate, *, at: datetime, reason: str = "unspecified", now: datetime | None = None
    ) -> PkiFolder:
        """Revoke a certificate, or make a hold final, and write the revocation list of its issuer.

        A certificate on hold is revoked since the hold began (X.509, reason code extension), whatever `at` is.

        Args:
            certificate: A certificate that an authority of this folder issued.
            at: The time of revocation, aware; not later than `now`.
            reason: One of `crl.REASONS` except `removeFromCRL`.
            now: The present, aware; `at` by default.

        Returns:
            The folder with the new revocation.

        Raises:
            ConfigurationError: `pki.not-issued-here`, `pki.already-revoked`, `pki.reason`, `pki.revocation-time`, `pki.ended`,
                `file.unwritable`, `pki.unusable`.
        """
        at, now = as_utc(at).replace(microsecond=0), as_utc(now or at)
        if reason not in REASONS or reason == NO_LONGER:
            known, clause = ", ".join(known for known in REASONS if known != NO_LONGER), "RFC 5280 section 5.3.1"
            hint = "; a hold is lifted with --lift" if reason == NO_LONGER else ""
            message = f"the reason {reason!r} is not one of {known} ({clause}){hint}"
            raise ConfigurationError("pki.reason", message, clause=clause)
        if at > now:
            message = f"{format_time(at)} is in the future: a list contains what is revoked, not what will be"
            raise ConfigurationError("pki.revocation-time", message)
        if at < certificate.not_before:
            begins = format_time(certificate.not_before)
            message = f"{certificate.subject} is valid from {begins} only, not at {format_time(at)}"
            raise ConfigurationError("pki.revocation-time", message)
        with locked(self.path):
            current = self._reread()
            before = current.revocation_of(certificate)
            if before is not None and (before.reason != HOLD or reason == HOLD):
                message = f"{certificate.subject} is revoked already since {format_time(before.at)} ({before.reason})"
                raise ConfigurationError("pki.already-revoked", message)
            since = before.at if before else at
            return current._replace_revocation(certificate, Revocation(certificate.serial, since, reason), now)

    def lift(self, certificate: EidasCertificate, *, now: datetime) -> PkiFolder:
        """End a hold: the new revocation list of the issuer leaves the certificate out.

        Args:
            certificate: A certificate on hold.
            now: The present, aware.

        Returns:
            The folder without the hold.

        Raises:
            ConfigurationError: `pki.not-issued-here`, `pki.not-on-hold`, `pki.ended`, `file.unwritable`, `pki.unusable`.
        """
        with locked(self.path):
            current = self._reread()
            before = current.revocation_of(certificate)
            if before is None or before.reason != HOLD:
                state = f"revoked for good ({before.reason})" if before else "not revoked"
                message = f"{certificate.subject} is {state}: there is no hold to lift"
                raise ConfigurationError("pki.not-on-hold", message)
            return current._replace_revocation(certificate, None, as_utc(now))

    def _replace_revocation(
        self, certificate: EidasCertificate, revocation: Revocation | None, now: datetime
    ) -> PkiFolder:
        """Publish the list of the certificate's issuer with this revocation or none."""
        known, label = self.pki.revocations, self._issuer_of(certificate).label
        others = [one for one in known[label] if one.serial != certificate.serial]
        revoked = {**known, label: (*others, *([revocation] if revocation else []))}
        after = PkiFolder(self.path, replace(self.pki, revocations=MappingProxyType(revoked)))
        after._publish_crls([after.pki.members[label]], now)
        return after

    def renew(self, *, now: datetime, only_due: bool = False) -> tuple[str, ...]:
        """Sign all revocation lists and trusted lists again.

        Args:
            now: The time of issue, aware.
            only_due: Sign only lists that are missing, or that have less than a quarter of their time left; none after the
                authorities ended.

        Returns:
            The names of the new files.

        Raises:
            ConfigurationError: `pki.ended`, `file.unwritable`, `pki.unusable`, `pki.foreign-key`.
        """
        now = as_utc(now)
        if only_due and now >= self.pki.root.certificate.not_after:
            return ()
        with locked(self.path):
            current, entries = self._reread(), {entry["path"]: entry for entry in read_manifest(self.path)["files"]}

            def is_due(name: str, days: int) -> bool:
                return not only_due or (name in entries and self._is_due(entries[name], now, timedelta(days=days) / 4))

            crls = [issuer for issuer in self.pki.issuers if is_due(f"{issuer.label}.crl", self.pki.days)]
            lists_due = any(is_due(f"{TRUSTED_LISTS}/{name}", LIST_DAYS) for name in LIST_FILES)
            published = current._publish_crls(crls, now) if crls else ()
            return (*published, *(current._publish_trusted_lists(now) if lists_due else ()))

    def _is_due(self, entry: Entry, now: datetime, left: timedelta) -> bool:
        try:
            content = read_bounded(self.path / entry["path"], max_bytes=MAX_LIST_BYTES)
            # A process that ended between the list and the manifest left an old hash.
            is_unknown = entry["kind"] == "crl" and sha256_of(content) != entry["sha256"]
            return is_unknown or shift(now, left) > parse_time(entry["not_after"])
        except (FormatError, KeyError, TypeError):
            return True

    def _publish_crls(self, issuers: Iterable[Issued], now: datetime) -> tuple[str, ...]:
        """Sign revocation lists with a higher number than all that exist, dated no earlier than any revocation."""
        pki, ended = self.pki, self.pki.root.certificate.not_after
        if now > ended:
            message = (
                f"the authorities of the folder ended on {format_time(ended)}: no verifier trusts a list of theirs"
            )
            raise ConfigurationError("pki.ended", message)
        present = max(now.replace(microsecond=0), pki.not_before)
        latest = max((one.at for revoked in pki.revocations.values() for one in revoked), default=present)
        if latest > shift(present, _SKEW):
            message = f"a certificate is revoked from {format_time(latest)}, after the present ({format_time(present)})"
            raise ConfigurationError("pki.unusable", f"{message}: check the clock")
        at = max(present, latest)
        number = 1 + max(read_crl(self.path, issuer).number for issuer in pki.issuers)
        return self._publish(revocation_lists(pki, issuers, at=at, number=number))

    def _publish_trusted_lists(self, now: datetime) -> tuple[str, ...]:
        """Sign the trusted lists with a higher sequence number."""
        folder, pki = self.path / TRUSTED_LISTS, self.pki
        if folder.is_symlink():
            raise ConfigurationError("pki.foreign-key", f"{folder} is a link: only the folder itself is written")
        at = max(now.replace(microsecond=0), pki.not_before)
        sequence = 1 + max(_sequence_number(folder / name) for name in LIST_FILES)
        return self._publish(trusted_lists(pki, at=at, sequence=sequence))

    def _publish(self, listed: Iterable[tuple[Entry, PkiFile]]) -> tuple[str, ...]:
        renewed = {}
        for entry, file in list(listed):  # all are signed before the first is replaced
            replace_file(self.path / file.name, file.content, mode=file.mode)
            renewed[file.name] = entry
        manifest = read_manifest(self.path)
        entries = [renewed.get(entry["path"], entry) for entry in manifest["files"]]
        replace_file(self.path / MANIFEST, manifest_json({**manifest, "files": entries}))
        return tuple(renewed)

    def _reread(self) -> PkiFolder:
        """Return the folder with what is revoked now; another process may have revoked something since it was opened."""
        return PkiFolder(self.path, with_revocations(self.pki, self.path))

    def _issuer_of(self, certificate: EidasCertificate) -> Issued:
        for issuer in self.pki.issuers:
            if certificate.sha256 != issuer.certificate.sha256 and is_issued_by(certificate, issuer.certificate):
                return issuer
        message = f"{certificate.subject} was not issued by an authority of this folder"
        raise ConfigurationError("pki.not-issued-here", message)


@without_locals
def open_pki(path: FilePath) -> PkiFolder:
    """Open the folder of a test PKI that `write_pki` made.

    Raises:
        ConfigurationError: `pki.unusable` (no manifest, a file missing or damaged), `pki.foreign-key` (a key is outside the
            folder, or does not belong to its certificate), `pki.not-test` (the name of an authority lacks the word TEST).
    """
    folder = as_path(path)
    return PkiFolder(folder, load_pki(folder))


def _sequence_number(file: Path) -> int:
    try:
        found = _SEQUENCE_NUMBER.search(read_bounded(file, max_bytes=MAX_LIST_BYTES))
    except FormatError:
        return 0
    return int(found[1]) if found else 0
