"""The list of the lists and the national lists, fetched into a folder: each is verified before it is written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from tppkit._files import replace_file
from tppkit.certificates import EidasCertificate
from tppkit.errors import ConfigurationError, FormatError, TppkitError, VerificationError
from tppkit.trust.fetching import Fetch
from tppkit.trust.trusted_list.folder import (
    load_signers,
    load_trusted_lists,
    pointers_to,
    verify_list_of_lists,
    verify_national,
)
from tppkit.trust.trusted_list.lists import ListFailure, TrustedLists
from tppkit.trust.trusted_list.model import Pointer, TrustedList
from tppkit.trust.trusted_list.reader import UnverifiedList
from tppkit.trust.trusted_list.xml_document import MAX_XML_BYTES

LOTL_ADDRESS = "https://ec.europa.eu/tools/lotl/eu-lotl.xml"
TIMEOUT_S = 60.0
MAX_PIVOTS = 16
_LOTL_FILE = "EU-LOTL.xml"


@dataclass(frozen=True, slots=True)
class FetchedLists:
    """What a fetch did.

    Attributes:
        written: lists that were verified and written.
        kept: lists that are the same as those at hand.
        failures: lists that were not fetched or do not hold; where one was at hand, it is kept.
    """

    written: tuple[TrustedList, ...]
    kept: tuple[TrustedList, ...]
    failures: tuple[ListFailure, ...]


def fetch_trusted_lists(
    folder: Path,
    *,
    fetch: Fetch,
    territories: Collection[str] | None = None,
    address: str = LOTL_ADDRESS,
    signers: Sequence[EidasCertificate] | None = None,
    progress: Callable[[str], None] | None = None,
) -> FetchedLists:
    """Fetch the list of the lists, and the national lists that it names, into a folder.

    Plain http is taken, as the list of the lists itself names such addresses: what is fetched is believed by its signature
    only, and an older list than the one at hand is refused.

    Args:
        folder: an existing folder; lists at hand there are replaced one by one, whole or not at all.
        fetch: gets the bytes of an address.
        territories: country codes as lists have them (`EL`, `UK`); None for all.
        address: of the list of the lists.
        signers: who may sign it, as for `load_trusted_lists`.
        progress: called with each territory before its list is fetched.

    Raises:
        ConfigurationError: `trust.unreadable`, `trusted-list.missing` (a territory is not named), `file.unwritable`,
            `extra.missing`.
        TransportError: the list of the lists cannot be fetched.
        FormatError, VerificationError: the list of the lists does not hold, as `load_trusted_lists`;
            `trusted-list.rollback`.
    """
    at_hand = _at_hand(folder, signers)
    failures: list[ListFailure] = []
    outcome = _Outcome(folder, at_hand, [], [], failures)
    data = fetch(address, max_bytes=MAX_XML_BYTES, timeout=TIMEOUT_S)
    top = _verify_top(data, address, folder, signers, fetch, outcome)
    _refuse_older(top, at_hand.list_of_lists if at_hand else None)
    outcome.keep(top, data, at_hand.list_of_lists if at_hand else None, _LOTL_FILE)
    pointers = pointers_to(top)
    unknown = set(territories or ()) - {pointer.territory for pointer in pointers}
    if unknown:
        raise ConfigurationError("trusted-list.missing", f"{top} names no list of {', '.join(sorted(unknown))}")
    for pointer in pointers:
        if territories is None or pointer.territory in territories:
            if progress is not None:
                progress(pointer.territory)
            _fetch_national(pointer, top, fetch, outcome)
    return FetchedLists(tuple(outcome.written), tuple(outcome.kept), tuple(failures))


@dataclass(slots=True)
class _Outcome:
    folder: Path
    at_hand: TrustedLists | None
    written: list[TrustedList]
    kept: list[TrustedList]
    failures: list[ListFailure]

    def keep(self, fetched: TrustedList, data: bytes, old: TrustedList | None, name: str) -> None:
        """Write a verified list over the one at hand, unless it is the same."""
        if old is not None and old.sha256 == fetched.sha256:
            self.kept.append(fetched)
            return
        replace_file(self.folder / (old.source if old else name), data)
        self.written.append(fetched)


def _at_hand(folder: Path, signers: Sequence[EidasCertificate] | None) -> TrustedLists | None:
    try:
        return load_trusted_lists(folder, signers=signers)
    except ConfigurationError as e:
        if e.code == "trusted-list.no-lotl":
            return None
        raise
    except (FormatError, VerificationError):
        return None  # what is at hand does not hold, so there is nothing to fall behind


def _verify_top(
    data: bytes, address: str, folder: Path, signers: Sequence[EidasCertificate] | None, fetch: Fetch, outcome: _Outcome
) -> TrustedList:
    """Verify the list of the lists, through the pivots that it names when its signer is new."""
    believed = load_signers(folder, signers=signers)
    newest = UnverifiedList(data, source=address)
    try:
        return verify_list_of_lists([newest], believed, outcome.failures)
    except VerificationError as e:
        if e.code != "trusted-list.signer":
            raise
    pivots = [
        (one, fetch(one, max_bytes=MAX_XML_BYTES, timeout=TIMEOUT_S)) for one in newest.claimed_pivots[:MAX_PIVOTS]
    ]
    candidates = [UnverifiedList(content, source=one) for one, content in pivots]
    top = verify_list_of_lists([*candidates, newest], believed, outcome.failures)
    for one, content in pivots:
        replace_file(folder / f"pivot-{UnverifiedList(content, source=one).claimed_sequence_number}.xml", content)
    return top


def _refuse_older(fetched: TrustedList, old: TrustedList | None) -> None:
    if old is not None and fetched.sequence_number < old.sequence_number:
        raise VerificationError(
            "trusted-list.rollback", f"{fetched} is older than number {old.sequence_number} at hand in {old.source}",
            clause="TS 119 612 clause 5.3.2",
        )  # fmt: skip


def _fetch_national(pointer: Pointer, top: TrustedList, fetch: Fetch, outcome: _Outcome) -> None:
    lists = outcome.at_hand.lists if outcome.at_hand else ()
    old = next((one for one in lists if one.territory == pointer.territory), None)
    try:
        data = fetch(pointer.location, max_bytes=MAX_XML_BYTES, timeout=TIMEOUT_S)
        fetched = verify_national(UnverifiedList(data, source=pointer.location), top, outcome.failures)
        if fetched is None:
            return
        if fetched.territory != pointer.territory:
            raise VerificationError(
                "trusted-list.not-named",
                f"{pointer.location} serves the list of {fetched.territory}, not {pointer.territory}",
            )
        _refuse_older(fetched, old)
    except TppkitError as e:
        outcome.failures.append(ListFailure(pointer.location, pointer.territory, e.code, e.message))
        return
    outcome.keep(fetched, data, old, f"{pointer.territory}.xml")
