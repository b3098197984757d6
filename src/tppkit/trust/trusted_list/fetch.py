"""Fetch the list of lists and the national lists into a folder; each is verified before it is written."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from tppkit._clock import format_time
from tppkit._files import FilePath, as_path, replace_file
from tppkit.certificates.files import CertificateSource
from tppkit.errors import ConfigurationError, FormatError, TppkitError, VerificationError
from tppkit.trust.fetching import Fetch
from tppkit.trust.trusted_list.folder import (
    following_signers,
    load_signers,
    load_trusted_lists,
    pointers_to,
    verify_list_of_lists,
    verify_national,
    verify_pivot,
)
from tppkit.trust.trusted_list.lists import ListFailure, TrustedLists
from tppkit.trust.trusted_list.lotl_signers import Signers
from tppkit.trust.trusted_list.model import Pointer, TrustedList
from tppkit.trust.trusted_list.reader import UnverifiedList
from tppkit.trust.trusted_list.xml_document import MAX_XML_BYTES

LOTL_ADDRESS = "https://ec.europa.eu/tools/lotl/eu-lotl.xml"
TIMEOUT_S = 60.0
MAX_PIVOTS = 16
_LOTL_FILE = "EU-LOTL.xml"


@dataclass(frozen=True, slots=True)
class FetchedLists:
    """The result of a fetch.

        fetched = fetch_trusted_lists("lists", fetch=make_fetch(), territories=["LT"])
        [one.territory for one in fetched.written]
        [failure.code for failure in fetched.failures]

    Attributes:
        written: lists that were verified and written.
        kept: lists that are the same as those in the folder.
        failures: lists that were not fetched or not verified; an older one in the folder stays.
    """

    written: tuple[TrustedList, ...]
    kept: tuple[TrustedList, ...]
    failures: tuple[ListFailure, ...]


def fetch_trusted_lists(
    folder: FilePath,
    *,
    fetch: Fetch,
    territories: Collection[str] | None = None,
    address: str = LOTL_ADDRESS,
    signers: CertificateSource | None = None,
    progress: Callable[[str], None] | None = None,
) -> FetchedLists:
    """Fetch the list of lists, and the national lists that it names, into a folder.

    Plain http is accepted, as the list of lists itself names such addresses: a list is trusted by its signature only, and one
    that is older than the one in the folder is rejected.

    Args:
        folder: an existing folder; its lists are replaced one by one, each completely or not at all.
        fetch: gets the bytes of an address.
        territories: country codes as lists have them (`EL`, `UK`); None for all.
        address: of the list of lists.
        signers: the certificates that may sign it, as for `load_trusted_lists`.
        progress: called with each territory before its list is fetched.

    Raises:
        ConfigurationError: `trust.unreadable`, `trusted-list.missing` (a territory is not named), `file.unwritable`,
            `extra.missing`.
        TransportError: the list of lists cannot be fetched.
        FormatError, VerificationError: the list of lists cannot be verified, as `load_trusted_lists`;
            `trusted-list.rollback`, `trusted-list.not-lotl`.
    """
    folder = as_path(folder)
    at_hand = _at_hand(folder, signers)
    run = _Run(folder, fetch, at_hand)
    top = _fetch_top(run, address, load_signers(folder, signers=signers))
    pointers = pointers_to(top)
    unknown = set(territories or ()) - {pointer.territory for pointer in pointers}
    if unknown:
        raise ConfigurationError(
            "trusted-list.missing", f"{top} names no list of {', '.join(sorted(unknown))}: check the country codes"
        )
    for pointer in pointers:
        if territories is None or pointer.territory in territories:
            if progress is not None:
                progress(pointer.territory)
            _fetch_national(run, pointer, top)
    return FetchedLists(tuple(run.written), tuple(run.kept), tuple(run.failures))


@dataclass(slots=True)
class _Run:
    """The state of one fetch."""

    folder: Path
    fetch: Fetch
    at_hand: TrustedLists | None
    written: list[TrustedList] = field(default_factory=list)
    kept: list[TrustedList] = field(default_factory=list)
    failures: list[ListFailure] = field(default_factory=list)
    pages: dict[str, bytes] = field(default_factory=dict)

    def get(self, address: str) -> UnverifiedList:
        """Fetch a list, and keep its bytes by their SHA-256."""
        data = self.fetch(address, max_bytes=MAX_XML_BYTES, timeout=TIMEOUT_S)
        self.pages[hashlib.sha256(data).hexdigest()] = data
        return UnverifiedList(data, source=address)

    def fail(self, address: str, territory: str | None, error: TppkitError) -> None:
        """Record a list that is not used."""
        self.failures.append(ListFailure(address, territory, error.code, error.message))

    def keep(self, verified: TrustedList, old: TrustedList | None, name: str) -> None:
        """Write the bytes of a verified list over the one in the folder, unless it is the same."""
        if old is not None and old.sha256 == verified.sha256:
            self.kept.append(verified)
            return
        replace_file(self.folder / (old.source if old else name), self.pages[verified.sha256])
        self.written.append(verified)

    def keep_pivot(self, verified: TrustedList) -> None:
        """Write a verified pivot; a pivot in the folder that was verified is never replaced."""
        file = self.folder / f"pivot-{verified.sequence_number}.xml"
        broken = self.at_hand is None or file.name in {failure.source for failure in self.at_hand.failures}
        if broken or not file.exists():
            replace_file(file, self.pages[verified.sha256])


def _at_hand(folder: Path, signers: CertificateSource | None) -> TrustedLists | None:
    try:
        return load_trusted_lists(folder, signers=signers)
    except ConfigurationError as e:
        if e.code == "trusted-list.no-lotl":
            return None
        raise
    except (FormatError, VerificationError):
        return None  # the lists in the folder cannot be verified, so no list can be older than them


def _fetch_top(run: _Run, address: str, signers: Signers) -> TrustedList:
    """Fetch, verify and write the list of lists; if its signer is new, through the pivots that it names."""
    newest = run.get(address)
    pivots: tuple[TrustedList, ...] = ()
    try:
        top, _ = verify_list_of_lists(newest, (), signers, run.failures)
    except VerificationError as e:
        if e.code != "trusted-list.signer":
            raise
        top, pivots = _verify_through_pivots(run, newest, signers)
    old = run.at_hand.list_of_lists if run.at_hand else None
    require_not_older(top, old)
    for pivot in pivots:
        run.keep_pivot(pivot)
    run.keep(top, old, _LOTL_FILE)
    return top


def _verify_through_pivots(
    run: _Run, newest: UnverifiedList, signers: Signers
) -> tuple[TrustedList, tuple[TrustedList, ...]]:
    """Verify the list from the latest pivot whose signer is trusted."""
    waiting: list[UnverifiedList] = []
    for pivot in _fetch_pivots(run, newest):
        try:
            trusted = verify_pivot(pivot, newest, signers)
        except (FormatError, VerificationError):
            waiting.append(pivot)
            continue
        top, others = verify_list_of_lists(newest, waiting, following_signers(trusted, signers), run.failures)
        return top, (trusted, *others)
    return verify_list_of_lists(newest, waiting, signers, run.failures)


def _fetch_pivots(run: _Run, newest: UnverifiedList) -> Iterator[UnverifiedList]:
    """The pivots that a list names, the latest first.

    The list is not verified yet, so only addresses on the server that it came from are fetched.
    """
    server = _server(newest.source)
    named = [address for address in newest.claimed_pivots if _server(address) == server]
    for address in named[:MAX_PIVOTS]:
        try:
            yield run.get(address)
        except TppkitError as e:
            run.fail(address, newest.claimed_territory, e)


def _server(address: str) -> tuple[str, str] | None:
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    return parts.scheme, parts.netloc


def require_not_older(fetched: TrustedList, old: TrustedList | None) -> None:
    """Reject a list that is older than the one in use.

    Raises:
        VerificationError: `trusted-list.rollback`.
    """
    # By the date as well: an attacker with the key of a retired signer can choose any number, but no date after its retirement.
    if old is not None and (fetched.sequence_number < old.sequence_number or fetched.issued < old.issued):
        raise VerificationError(
            "trusted-list.rollback",
            f"{fetched}, issued on {format_time(fetched.issued)}, is older than number {old.sequence_number} of"
            f" {format_time(old.issued)} in {old.source}",
            clause="TS 119 612 clause 5.3.2",
        )


def _fetch_national(run: _Run, pointer: Pointer, top: TrustedList) -> None:
    lists = run.at_hand.lists if run.at_hand else ()
    old = next((one for one in lists if one.territory == pointer.territory), None)
    run.pages.clear()
    try:
        fetched = verify_national(run.get(pointer.location), top)
        if fetched.territory != pointer.territory:
            raise VerificationError(
                "trusted-list.not-named",
                f"{pointer.location} serves the list of {fetched.territory}, not {pointer.territory}",
            )
        require_not_older(fetched, old)
    except TppkitError as e:
        run.fail(pointer.location, pointer.territory, e)
        return
    run.keep(fetched, old, f"{pointer.territory}.xml")
