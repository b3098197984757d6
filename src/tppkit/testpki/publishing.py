"""What a test PKI's folder publishes, signed anew as things change and time goes on: revocation lists and trusted lists.

The lists in the folder are the only ones: what is served over HTTP is what stands there, so that their numbers never go back.

Sources: RFC 5280 sections 5.1.2.4 and 5.2.3 (thisUpdate, CRL number), ETSI TS 119 612 clauses 5.3.2 and 5.3.15 (sequence number,
next update).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509

from tppkit._clock import as_utc, format_time, parse_time, shift
from tppkit._files import make_folder, read_bounded, replace_file
from tppkit.errors import ConfigurationError, FormatError
from tppkit.testpki.authority import Pki
from tppkit.testpki.crl import REASONS, Revocation
from tppkit.testpki.files import (
    LOTL_SIGNER,
    MANIFEST,
    TRUSTED_LISTS,
    crl_entry,
    crl_files,
    list_entry,
    manifest_json,
    trusted_list_files,
)
from tppkit.testpki.opening import read_manifest
from tppkit.testpki.pem import PkiFile, certificate_pem
from tppkit.testpki.revocations import REVOCATIONS
from tppkit.testpki.trusted_lists import LIST_DAYS, LIST_FILES

_MAX_LIST_BYTES = 32 * 1024 * 1024
_SKEW = timedelta(minutes=5)  # by how much the clocks of who changes a folder may differ
_SEQUENCE_NUMBER = re.compile(rb"<TSLSequenceNumber>([0-9]{1,9})</TSLSequenceNumber>")
_LIST_SIGNERS = frozenset({"lotl-signer", "list-signer"})
_REASON_NAMES = {name.lower(): name for name in REASONS}

Entry = dict[str, Any]


def publish_crls(path: Path, pki: Pki, *, now: datetime) -> tuple[str, ...]:
    """Sign every revocation list anew, with a higher number and no earlier time than those that stand there; their names.

    Of two lists of the same second the number tells the later one (RFC 5280 section 5.2.3). The next second would do so as
    well, but until it has come OpenSSL and others refuse such a list as one that is not valid yet. For the same reason the time
    of a standing list that is dated after the present does not count.

    Args:
        path: the folder.
        pki: what stands in it, with what is revoked.
        now: the present, aware.

    Raises:
        ConfigurationError: `file.unwritable`, `pki.ended`, `pki.unusable`.
    """
    now, standing = as_utc(now).replace(microsecond=0), list(_standing(path, pki))
    require_publishable(pki, now=now)
    dated = [crl.last_update_utc for crl in standing if crl.last_update_utc <= shift(now, _SKEW)]
    revoked_at = [act.at for acts in pki.revocations.values() for act in acts]
    issued = max([now, pki.not_before, *dated, *revoked_at])
    number = 1 + max(map(_number, standing), default=0)
    files = list(crl_files(pki, at=issued, number=number))
    return _publish(path, [(crl_entry(file), file) for file in files])


def require_publishable(pki: Pki, *, now: datetime) -> None:
    """Require that revocation lists can be signed now.

    Raises:
        ConfigurationError: `pki.ended`, the authorities have ended; `pki.unusable`, something is revoked from a time to come,
            but for what clocks may differ by.
    """
    ended = pki.root.certificate.not_after
    if as_utc(now) > ended:
        message = f"the authorities of the folder ended on {format_time(ended)}: nobody believes a list of theirs"
        raise ConfigurationError("pki.ended", message)
    latest = max((act.at for acts in pki.revocations.values() for act in acts), default=pki.not_before)
    if latest > shift(max(as_utc(now), pki.not_before), _SKEW):
        message = f"the journal has a revocation of {format_time(latest)}, after the present: check the clock, or mend {REVOCATIONS}"
        raise ConfigurationError("pki.unusable", message)


def publish_trusted_lists(path: Path, pki: Pki, *, now: datetime) -> tuple[str, ...]:
    """Sign the trusted lists anew, with a higher sequence number; their names. None where the folder has no signers of lists.

    Arguments and errors as for `publish_crls`, and `pki.foreign-key`: the lists lie outside the folder.
    """
    if not pki.members.keys() >= _LIST_SIGNERS:
        return ()
    if (path / TRUSTED_LISTS).is_symlink():
        raise ConfigurationError(
            "pki.foreign-key", f"{path / TRUSTED_LISTS} is a link: only what stands in the folder is written"
        )
    if not (path / TRUSTED_LISTS).exists():
        make_folder((path / LOTL_SIGNER).parent)
        replace_file(path / LOTL_SIGNER, certificate_pem(pki.members["lotl-signer"].certificate))
    now = max(as_utc(now).replace(microsecond=0), pki.not_before)
    sequence = 1 + max((_sequence_number(path / TRUSTED_LISTS / name) for name in LIST_FILES), default=0)
    return _publish(
        path,
        [(list_entry(file, at=now), file) for file in trusted_list_files(pki, at=now, sequence=sequence)],
    )


def are_crls_current(path: Path, pki: Pki) -> bool:
    """Whether the revocation lists have what is revoked, no more and no less, and the manifest knows them.

    They have not when a command was ended, or ran out of room, before it had written everything.
    """
    standing = list(_standing(path, pki))
    if [set(_acts(crl)) for crl in standing] != [set(pki.revocations.get(one.label, ())) for one in pki.issuers]:
        return False
    told = {entry["path"]: entry.get("sha256") for entry in read_manifest(path)["files"]}
    return all(told.get(f"{issuer.label}.crl") == _sha256(path / f"{issuer.label}.crl") for issuer in pki.issuers)


def ends_soon(path: Path, pki: Pki, *, now: datetime) -> tuple[bool, bool]:
    """Whether less than a quarter of their time is left for the revocation lists, and for the trusted lists.

    Nothing is renewed for an authority that has ended itself.
    """
    if now >= pki.root.certificate.not_after:
        return False, False
    entries = {entry["path"]: entry for entry in read_manifest(path)["files"]}
    crls = [f"{issuer.label}.crl" for issuer in pki.issuers]
    lists = [f"{TRUSTED_LISTS}/{name}" for name in LIST_FILES]
    return (
        any(_is_near(entries.get(name), now, timedelta(days=pki.days) / 4) for name in crls),
        any(_is_near(entries.get(name), now, timedelta(days=LIST_DAYS) / 4) for name in lists),
    )


def _is_near(entry: Entry | None, now: datetime, left: timedelta) -> bool:
    try:
        return entry is not None and shift(now, left) > parse_time(entry["not_after"])
    except (FormatError, KeyError, TypeError):
        return True  # what does not say when it ends is made again


def _publish(path: Path, listed: Iterable[tuple[Entry, PkiFile]]) -> tuple[str, ...]:
    anew = {}
    for entry, file in listed:
        replace_file(path / file.name, file.content, mode=file.mode)
        anew[file.name] = entry
    manifest = read_manifest(path)
    entries = [anew.get(entry["path"], entry) for entry in manifest["files"]]
    replace_file(path / MANIFEST, manifest_json({**manifest, "files": entries}))
    return tuple(anew)


def _standing(path: Path, pki: Pki) -> Iterator[x509.CertificateRevocationList]:
    """The lists in the folder that can be read, in the order of their authorities."""
    for issuer in pki.issuers:
        try:
            yield x509.load_der_x509_crl(read_bounded(path / f"{issuer.label}.crl", max_bytes=_MAX_LIST_BYTES))
        except (FormatError, ValueError):
            continue


def _number(crl: x509.CertificateRevocationList) -> int:
    try:
        return crl.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
    except (ValueError, x509.ExtensionNotFound, x509.DuplicateExtension, x509.UnsupportedGeneralNameType):
        return 0


def _acts(crl: x509.CertificateRevocationList) -> Iterator[Revocation]:
    for entry in crl:
        try:
            reason = entry.extensions.get_extension_for_class(x509.CRLReason).value.reason.value
        except (ValueError, x509.ExtensionNotFound, x509.DuplicateExtension, x509.UnsupportedGeneralNameType):
            reason = "unspecified"
        yield Revocation(entry.serial_number, entry.revocation_date_utc, _REASON_NAMES.get(reason.lower(), reason))


def _sequence_number(file: Path) -> int:
    try:
        found = _SEQUENCE_NUMBER.search(read_bounded(file, max_bytes=_MAX_LIST_BYTES))
    except FormatError:
        return 0
    return int(found[1]) if found else 0


def _sha256(file: Path) -> str | None:
    try:
        return hashlib.sha256(read_bounded(file, max_bytes=_MAX_LIST_BYTES)).hexdigest()
    except FormatError:
        return None
