"""Trusted lists from a folder: the pinned signers verify the list of lists, which names the signers of the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from tppkit._clock import format_time
from tppkit._files import FilePath, as_path, read_bounded
from tppkit.certificates import load_certificates
from tppkit.certificates.files import CertificateSource, read_certificates
from tppkit.errors import ConfigurationError, Finding, FormatError, Severity, TppkitError, VerificationError
from tppkit.trust.anchors import is_certificate_file
from tppkit.trust.trusted_list.lists import ListFailure, TrustedLists
from tppkit.trust.trusted_list.lotl_signers import LOTL_SIGNERS, Signers, SigningPeriod
from tppkit.trust.trusted_list.model import Pointer, TrustedList
from tppkit.trust.trusted_list.reader import UnverifiedList
from tppkit.trust.trusted_list.uris import LIST_OF_LISTS, NATIONAL_LIST, XML_LIST_MEDIA_TYPE
from tppkit.trust.trusted_list.xml_document import MAX_XML_BYTES, Pace, no_rest

LIST_SUFFIXES = frozenset({".xml", ".xtsl"})
SIGNERS_FOLDER = "lotl-signers"
MAX_LISTS = 200


def load_trusted_lists(
    folder: FilePath, *, signers: CertificateSource | None = None, pace: Pace = no_rest
) -> TrustedLists:
    """Read and verify the lists of a folder.

    The list of lists is recognised by its type, not its file name. Older ones are used as pivots, which announce newer sets of
    signers. A national list that cannot be verified does not hide the others: it is among `failures`.

    Args:
        folder: contains the lists (.xml, .xtsl). Certificates in its folder `lotl-signers` replace the pinned signers.
        signers: a path, PEM or DER bytes, or certificates, which replace all of these. If the folder has no list of lists, they verify the
            national lists.
        pace: called between pieces of work, to rest: one that sleeps leaves the interpreter to other threads.

    Raises:
        ConfigurationError: `trust.unreadable`, `trusted-list.no-lotl`, `extra.missing`, `certificate.argument`.
        FormatError: `trusted-list.malformed`: the list of lists; `file.*`, `certificate.*`: `signers`.
        VerificationError: `trusted-list.unsigned`, `trusted-list.signature-form`, `trusted-list.signer`,
            `trusted-list.signature`, `trusted-list.signer-validity`, `trusted-list.next-update`: the list of lists.
    """
    folder = as_path(folder)
    trusted = load_signers(folder, signers=signers)
    failures: list[ListFailure] = []
    unverified = list(_read_folder(folder, failures, pace))
    tops = [one for one in unverified if one.claimed_type == LIST_OF_LISTS]
    nationals = [one for one in unverified if one.claimed_type != LIST_OF_LISTS]
    if tops:
        *pivots, newest = sorted(tops, key=lambda one: one.claimed_sequence_number)
        top, _ = verify_list_of_lists(newest, pivots, trusted, failures)
    elif signers is not None:
        top = None
    else:
        raise ConfigurationError(
            "trusted-list.no-lotl",
            f"{folder} has no list of lists, which names the signers of the others: fetch one (trust fetch)",
        )
    lists = []
    for one in nationals:
        try:
            lists.append(one.verify(signers=trusted) if top is None else verify_national(one, top))
        except TppkitError as e:
            failures.append(_failure(one, e))
    return TrustedLists(_latest(lists, failures), list_of_lists=top, failures=failures)


def _failure(unverified: UnverifiedList, error: TppkitError) -> ListFailure:
    return ListFailure(unverified.source, unverified.claimed_territory, error.code, error.message, unverified.sha256)


def load_signers(folder: Path, *, signers: CertificateSource | None = None) -> Signers:
    """Return the certificates that may sign the list of lists, by SHA-256: those given, in the folder, or pinned.

    Raises:
        ConfigurationError, FormatError: `trust.unreadable`; for `signers` `trust.no-anchors`, `certificate.*`, `file.*`.
    """
    if signers is not None:
        return {signer.sha256: SigningPeriod() for signer in read_certificates(signers, what="signers")}
    try:
        own = folder / SIGNERS_FOLDER
        if not own.is_dir():
            return LOTL_SIGNERS
        files = sorted(filter(is_certificate_file, own.iterdir()))
        return {certificate.sha256: SigningPeriod() for file in files for certificate in load_certificates(file)}
    except (OSError, FormatError) as e:
        reason = e.message if isinstance(e, FormatError) else e.strerror
        raise ConfigurationError("trust.unreadable", f"the signers in {folder} cannot be read: {reason}") from e


def _read_folder(folder: Path, failures: list[ListFailure], pace: Pace) -> list[UnverifiedList]:
    try:
        files = sorted(file for file in folder.iterdir() if file.suffix.lower() in LIST_SUFFIXES and file.is_file())
    except OSError as e:
        raise ConfigurationError(
            "trust.unreadable", f"the trusted lists in {folder} cannot be read: {e.strerror}"
        ) from e
    if len(files) > MAX_LISTS:
        raise ConfigurationError("trust.unreadable", f"{folder} holds more than {MAX_LISTS} lists: remove some")
    found = []
    for file in files:
        try:
            data = read_bounded(file, max_bytes=MAX_XML_BYTES)
            found.append(UnverifiedList(data, source=file.name, pace=pace))
        except FormatError as e:
            failures.append(ListFailure(file.name, None, e.code, e.message))
    return found


def verify_list_of_lists(
    newest: UnverifiedList, pivots: Iterable[UnverifiedList], signers: Signers, failures: list[ListFailure]
) -> tuple[TrustedList, tuple[TrustedList, ...]]:
    """Verify a list of lists through its pivots, each of which names the signers of the next.

    Args:
        newest: the list of lists.
        pivots: older ones, in any order; those that cannot be verified are skipped.
        signers: the certificates that may sign the oldest.
        failures: receives the pivots that cannot be verified.

    Returns:
        The list, and the verified pivots.

    Raises:
        FormatError: `trusted-list.malformed`.
        VerificationError: as `load_trusted_lists`; `trusted-list.not-lotl`.
    """
    verified = []
    for pivot in sorted(pivots, key=lambda one: one.claimed_sequence_number):
        try:
            verified.append(verify_pivot(pivot, newest, signers))
            signers = following_signers(verified[-1], signers)
        except (FormatError, VerificationError) as e:
            failures.append(_failure(pivot, e))
    return _verify_top(newest, signers), tuple(verified)


def verify_pivot(pivot: UnverifiedList, newest: UnverifiedList, signers: Signers) -> TrustedList:
    """Verify a list of lists that is older than another.

    Raises:
        FormatError: `trusted-list.malformed`.
        VerificationError: `trusted-list.not-older`; as `verify_list_of_lists`.
    """
    if pivot.claimed_sequence_number >= newest.claimed_sequence_number:
        raise VerificationError(
            "trusted-list.not-older",
            f"{pivot.source} is number {pivot.claimed_sequence_number}, not older than number"
            f" {newest.claimed_sequence_number} in {newest.source}",
        )
    return _verify_top(pivot, signers)


def following_signers(pivot: TrustedList, signers: Signers) -> Signers:
    """Return the signers after a pivot: those that it names replace all except those published after it."""
    named = frozenset().union(*(pointer.signers for pointer in pivot.pointers if pointer.type == LIST_OF_LISTS))
    if not named:
        return signers
    later = {digest: period for digest, period in signers.items() if period.since and period.since > pivot.issued}
    until = min((period.since for period in later.values() if period.since), default=None)
    return {**dict.fromkeys(named, SigningPeriod(until=until)), **later}


def _verify_top(candidate: UnverifiedList, signers: Signers) -> TrustedList:
    verified = candidate.verify(signers=signers)
    if not verified.is_list_of_lists:
        raise VerificationError(
            "trusted-list.not-lotl", f"{verified} is not the list of lists: its type is {verified.type}",
            clause="TS 119 612 clause 5.3.3",
        )  # fmt: skip
    until = signers[verified.signer.sha256].until or verified.signer.not_after
    if not verified.signer.is_valid_at(verified.issued) or verified.issued >= until:
        raise VerificationError(
            "trusted-list.signer-validity",
            f"{verified} was issued on {format_time(verified.issued)}, outside the validity of its signer's certificate"
            f" or after its signer was retired",
            clause="TS 119 612 clause 5.7.1",
        )
    # A list of a retired signer is used for questions about its own time only.
    return replace(verified, signer_until=min(until, verified.signer.not_after))


def pointers_to(top: TrustedList, territory: str | None = None) -> tuple[Pointer, ...]:
    """The pointers of the list of lists to machine-readable lists: of a territory, or all."""
    return tuple(
        pointer
        for pointer in top.pointers
        if (pointer.type, pointer.media_type) == (NATIONAL_LIST, XML_LIST_MEDIA_TYPE)
        and territory in (None, pointer.territory)
    )


def verify_national(candidate: UnverifiedList, top: TrustedList) -> TrustedList:
    """Verify a national list with the signers that the list of lists names.

    Raises:
        FormatError: `trusted-list.malformed`.
        VerificationError: `trusted-list.not-named`; as `UnverifiedList.verify`.
    """
    pointers = pointers_to(top, candidate.claimed_territory)
    if not pointers or candidate.claimed_type != NATIONAL_LIST:
        message = (
            f"{candidate.source} claims to be a list of {candidate.claimed_territory} of type {candidate.claimed_type},"
            f" which {top} does not name"
        )
        raise VerificationError("trusted-list.not-named", message)
    verified = candidate.verify(signers=frozenset[str]().union(*(pointer.signers for pointer in pointers)))
    operators = {operator.casefold(): operator for pointer in pointers for operator in pointer.operators}
    if not operators.keys().isdisjoint(operator.casefold() for operator in verified.operators):
        return verified
    # The signer decides: a scheme operator may write its name in another way than the Commission.
    message = (
        f"the list of {verified.territory} is of {', '.join(verified.operators)}, where {top} names"
        f" {', '.join(operators.values())}"
    )
    notice = Finding("trusted-list.operator", Severity.NOTICE, message, "TS 119 612 clause 5.3.4")
    return replace(verified, findings=(*verified.findings, notice))


def _latest(lists: Sequence[TrustedList], failures: list[ListFailure]) -> list[TrustedList]:
    """Return for each territory the list with the highest sequence number, and of those the one issued last."""
    latest: dict[str, TrustedList] = {}
    ambiguous: set[str] = set()
    for one in sorted(lists, key=_issue, reverse=True):
        newest = latest.setdefault(one.territory, one)
        # a copy, perhaps with another last line end; its findings name its file
        if one == replace(newest, sha256=one.sha256, source=one.source, findings=one.findings):
            continue
        if _issue(one) == _issue(newest):
            ambiguous.add(one.territory)
            code = "trusted-list.ambiguous"
            message = f"{one} and {newest.source} differ, but have the same number and time of issue: neither is used"
        else:
            code = "trusted-list.superseded"
            message = f"{one} is superseded by number {newest.sequence_number} in {newest.source}"
        failures.append(ListFailure(one.source, one.territory, code, message))
    return [one for one in latest.values() if one.territory not in ambiguous]


def _issue(one: TrustedList) -> tuple[int, datetime]:
    return one.sequence_number, one.issued
