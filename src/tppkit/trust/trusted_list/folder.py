"""Trusted lists from a folder: the pinned signers verify the list of lists, which names the signers of the others."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from tppkit._clock import format_time
from tppkit._files import FilePath, as_path, read_bounded
from tppkit.certificates import EidasCertificate, load_certificates
from tppkit.errors import ConfigurationError, FormatError, TppkitError, VerificationError
from tppkit.trust.anchors import CERTIFICATE_SUFFIXES
from tppkit.trust.trusted_list.lists import ListFailure, TrustedLists
from tppkit.trust.trusted_list.lotl_signers import LOTL_SIGNERS, Signers, SigningPeriod
from tppkit.trust.trusted_list.model import Pointer, TrustedList
from tppkit.trust.trusted_list.reader import UnverifiedList
from tppkit.trust.trusted_list.uris import LIST_OF_LISTS, NATIONAL_LIST, XML_LIST_MEDIA_TYPE
from tppkit.trust.trusted_list.xml_document import MAX_XML_BYTES

LIST_SUFFIXES = frozenset({".xml", ".xtsl"})
SIGNERS_FOLDER = "lotl-signers"
MAX_LISTS = 200


def load_trusted_lists(folder: FilePath, *, signers: Sequence[EidasCertificate] | None = None) -> TrustedLists:
    """Read and verify the lists of a folder.

    The list of lists is recognised by its type, not its file name. Older ones are used as pivots, which announce newer sets of
    signers. A national list that cannot be verified does not hide the others: it is among `failures`.

    Args:
        folder: contains the lists (.xml, .xtsl). Certificates in its folder `lotl-signers` replace the pinned signers.
        signers: replace all of these. If the folder has no list of lists, they verify the national lists.

    Raises:
        ConfigurationError: `trust.unreadable`, `trusted-list.no-lotl`, `extra.missing`.
        FormatError: `trusted-list.malformed`: the list of lists.
        VerificationError: `trusted-list.unsigned`, `trusted-list.signature-form`, `trusted-list.signer`,
            `trusted-list.signature`, `trusted-list.signer-validity`, `trusted-list.next-update`: the list of lists.
    """
    folder = as_path(folder)
    trusted = load_signers(folder, signers=signers)
    failures: list[ListFailure] = []
    unverified = list(_read_folder(folder, failures))
    tops = [one for one in unverified if one.claimed_type == LIST_OF_LISTS]
    nationals = [one for one in unverified if one.claimed_type != LIST_OF_LISTS]
    if tops:
        *pivots, newest = sorted(tops, key=lambda one: one.claimed_sequence_number)
        top, _ = verify_list_of_lists(newest, pivots, trusted, failures)
        lists = [verify_national(one, top, failures) for one in nationals]
    elif signers is not None:
        top = None
        lists = [_verify_with(one, trusted, failures) for one in nationals]
    else:
        raise ConfigurationError(
            "trusted-list.no-lotl",
            f"{folder} has no list of lists, which names the signers of the others: fetch one (trust fetch)",
        )
    return TrustedLists(_latest([one for one in lists if one], failures), list_of_lists=top, failures=failures)


def load_signers(folder: Path, *, signers: Sequence[EidasCertificate] | None = None) -> Signers:
    """Return the certificates that may sign the list of lists, by SHA-256: those given, in the folder, or pinned.

    Raises:
        ConfigurationError: `trust.unreadable`.
    """
    if signers is not None:
        return {signer.sha256: SigningPeriod() for signer in signers}
    try:
        own = folder / SIGNERS_FOLDER
        if not own.is_dir():
            return LOTL_SIGNERS
        files = sorted(file for file in own.iterdir() if file.suffix.lower() in CERTIFICATE_SUFFIXES)
        return {certificate.sha256: SigningPeriod() for file in files for certificate in load_certificates(file)}
    except (OSError, FormatError) as e:
        reason = e.message if isinstance(e, FormatError) else e.strerror
        raise ConfigurationError("trust.unreadable", f"the signers in {folder} cannot be read: {reason}") from e


def _read_folder(folder: Path, failures: list[ListFailure]) -> list[UnverifiedList]:
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
            found.append(UnverifiedList(read_bounded(file, max_bytes=MAX_XML_BYTES), source=file.name))
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
            failures.append(ListFailure(pivot.source, pivot.claimed_territory, e.code, e.message))
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


def verify_national(candidate: UnverifiedList, top: TrustedList, failures: list[ListFailure]) -> TrustedList | None:
    """Verify a national list with the signers that the list of lists names; None, and a failure, if it cannot be verified."""
    pointers = pointers_to(top, candidate.claimed_territory)
    if not pointers or candidate.claimed_type != NATIONAL_LIST:
        message = (
            f"{candidate.source} claims to be a list of {candidate.claimed_territory} of type {candidate.claimed_type},"
            f" which {top} does not name"
        )
        failures.append(ListFailure(candidate.source, candidate.claimed_territory, "trusted-list.not-named", message))
        return None
    verified = _verify_with(candidate, frozenset().union(*(pointer.signers for pointer in pointers)), failures)
    operators = tuple(operator for pointer in pointers for operator in pointer.operators)
    if verified is None or _fold(verified.operators) & _fold(operators):
        return verified
    message = f"{verified} is of {', '.join(verified.operators)}, where {top} names {', '.join(operators)}"
    failures.append(ListFailure(candidate.source, candidate.claimed_territory, "trusted-list.not-named", message))
    return None


def _fold(names: Sequence[str]) -> set[str]:
    return {name.casefold() for name in names}


def _verify_with(
    candidate: UnverifiedList, signers: Collection[str], failures: list[ListFailure]
) -> TrustedList | None:
    try:
        return candidate.verify(signers=signers)
    except TppkitError as e:
        failures.append(ListFailure(candidate.source, candidate.claimed_territory, e.code, e.message))
        return None


def _latest(lists: Sequence[TrustedList], failures: list[ListFailure]) -> list[TrustedList]:
    """Return for each territory the list with the highest sequence number."""
    latest: dict[str, TrustedList] = {}
    for one in sorted(lists, key=lambda one: one.sequence_number):
        older = latest.get(one.territory)
        if older is not None and older.sha256 != one.sha256:  # a copy is no second list
            message = f"{older} is superseded by number {one.sequence_number} in {one.source}"
            failures.append(ListFailure(older.source, older.territory, "trusted-list.superseded", message))
        latest[one.territory] = one
    return list(latest.values())
