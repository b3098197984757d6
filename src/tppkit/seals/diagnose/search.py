"""The search for what was signed: the right signing string, then one change of it, then two.

Nothing is guessed that is not proven: an answer is a byte string under which the signature verifies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric import rsa

from tppkit.certificates import EidasCertificate
from tppkit.seals.diagnose.draft import Draft, Seen, right_draft
from tppkit.seals.diagnose.encodings import Decoded, decode_any
from tppkit.seals.diagnose.jws_strings import JWS_HEADER_MISTAKES, JWS_PAYLOAD_MISTAKES
from tppkit.seals.diagnose.lines import LINE_MISTAKES
from tppkit.seals.diagnose.mistake import StringMistake
from tppkit.seals.diagnose.recover import Made, Oracle, Points, make_oracles
from tppkit.seals.diagnose.strings import STRING_MISTAKES, signed_bytes
from tppkit.seals.diagnose.targets import TARGET_MISTAKES
from tppkit.seals.diagnose.values import VALUE_MISTAKES

# In this order changes are made one after the other: values before names, lines before the whole.
MISTAKES: tuple[StringMistake, ...] = (
    *TARGET_MISTAKES, *VALUE_MISTAKES, *LINE_MISTAKES, *JWS_HEADER_MISTAKES, *STRING_MISTAKES,
    *JWS_PAYLOAD_MISTAKES,
)  # fmt: skip

MAX_COVERED = 64  # of a longer list only the right string is tried
MAX_WORK = 1_200_000  # in units of about two microseconds: an answer costs its oracle's `cost`, a draft DRAFT_COST
DRAFT_COST = 5


_OF_NUMBERS = ("reversed", "leading-zero")  # mistakes with a signature that is one number


class Signed(NamedTuple):
    """What was signed, proven by the signature.

    Attributes:
        certificate: whose key made it.
        written: how the signature is encoded.
        made: by which scheme and hash.
        mistakes: in the signing string, in the order in which they were made.
        seen: the reading of the parameters under which it fits.
        right: the signing string as it should have been.
        steps: the signing string after each mistake; the last is as it was signed.
    """

    certificate: EidasCertificate
    written: Decoded
    made: Made
    mistakes: tuple[StringMistake, ...]
    seen: Seen
    right: Draft
    steps: tuple[Draft, ...]

    @property
    def draft(self) -> Draft:
        """What was signed."""
        return self.steps[-1] if self.steps else self.right


class Search(NamedTuple):
    """The outcome of a search.

    Attributes:
        signed: what was signed, or None.
        made_by: the certificate whose key surely made the signature (RSA tells), or None.
        made: how, where that is known.
        tried: how many byte strings were compared.
        complete: every combination was tried, none was left for want of time.
        readable: the signature could be decoded to something that some key can judge.
    """

    signed: Signed | None
    made_by: EidasCertificate | None
    made: Made | None
    tried: int
    complete: bool
    readable: bool


class _Judge(NamedTuple):
    certificate: EidasCertificate
    written: Decoded
    oracle: Oracle


class _Panel:
    """Every key and reading of the signature that is asked about each candidate, and how much may still be asked.

    Keys on one curve share the work: the point that a hash leads to is the same for all of them.
    """

    def __init__(self, judges: Sequence[_Judge], limit: int) -> None:
        self.judges = judges
        self.left = limit
        self.tried = 0
        shared = {judge.oracle.shares: judge.oracle.cost for judge in judges if judge.oracle.shares}
        self._cost = (
            DRAFT_COST + sum(shared.values()) + sum(judge.oracle.cost for judge in judges if not judge.oracle.shares)
        )

    def match(self, data: bytes, *, any_hash: bool = False) -> tuple[_Judge, Made] | None:
        """Which key made the signature over these bytes, and how."""
        self.left -= (4 if any_hash else 1) * self._cost + (len(data) >> 7)
        self.tried += 1
        points: Points = {}
        for judge in self.judges:
            made = judge.oracle.match(data, any_hash=any_hash, points=points)
            if made:
                return judge, made
        return None


def find_signed(
    readings: Sequence[Seen], *, text: str, certificates: Sequence[EidasCertificate], max_work: int = MAX_WORK
) -> Search:
    """Find the byte string that was signed.

    Args:
        readings: what the request and its parameters may say, the likeliest first.
        text: of the signature, as written.
        certificates: whose keys may have made it, the likeliest first.
        max_work: a bound for the search, in units of about two microseconds.
    """
    panel = _Panel(tuple(_judges(text, certificates)), max_work)
    signed = None
    long = any(len(seen.parameters.headers) > MAX_COVERED for seen in readings)
    for stage in _STAGES[:1] if long else _STAGES:
        for seen in readings if panel.judges else ():
            signed = signed or stage(panel, seen)
        if signed is not None:
            break
    certain = next((judge for judge in panel.judges if judge.oracle.made.certain), None)
    complete = panel.left > 0 and not long
    if certain is None:
        return Search(signed, None, None, panel.tried, complete, bool(panel.judges))
    return Search(signed, certain.certificate, certain.oracle.made, panel.tried, complete, readable=True)


def _judges(text: str, certificates: Sequence[EidasCertificate]) -> Iterator[_Judge]:
    """Each way to read the signature, under each key that can have made it; alone the one that surely did."""
    found: list[_Judge] = []
    for written in _written(text):
        for certificate in certificates:
            if written.name in _OF_NUMBERS and not isinstance(certificate.public_key, rsa.RSAPublicKey):
                continue
            for oracle in make_oracles(certificate.public_key, written.raw):
                judge = _Judge(certificate, written, oracle)
                if oracle.made.certain:
                    yield judge
                    return
                found.append(judge)
    yield from found


def _written(text: str) -> Iterator[Decoded]:
    decoded = decode_any(text)
    yield from decoded
    for name, raw in decoded[:1]:
        if raw[:1] == b"\x30" and len(raw) >= 2 and 2 + raw[1] < len(raw):
            yield Decoded("trailing-bytes", raw[: 2 + raw[1]])
        if not name:
            yield Decoded("reversed", raw[::-1])
            yield Decoded("leading-zero", raw.removeprefix(b"\0") if raw[:1] == b"\0" else b"\0" + raw)


def _found(answer: tuple[_Judge, Made], seen: Seen, *done: tuple[StringMistake, Draft]) -> Signed:
    judge, made = answer
    mistakes, steps = tuple([mistake for mistake, _ in done]), tuple([draft for _, draft in done])
    return Signed(judge.certificate, judge.written, made, mistakes, seen, right_draft(seen), steps)


def _right(panel: _Panel, seen: Seen) -> Signed | None:
    answer = panel.match(signed_bytes(right_draft(seen)), any_hash=True)
    return _found(answer, seen) if answer else None


def _single(panel: _Panel, seen: Seen, *, any_hash: bool = False) -> Signed | None:
    for mistake, draft in _variants(right_draft(seen), seen):
        if panel.left <= 0:
            return None
        answer = panel.match(signed_bytes(draft), any_hash=any_hash)
        if answer:
            return _found(answer, seen, (mistake, draft))
    return None


def _single_any_hash(panel: _Panel, seen: Seen) -> Signed | None:
    if all(judge.oracle.made.hash for judge in panel.judges):
        return None
    return _single(panel, seen, any_hash=True)


def _common_pairs(panel: _Panel, seen: Seen) -> Signed | None:
    return _pairs(panel, seen, taken=lambda first, second: first.common and second.common)


def _likely_pairs(panel: _Panel, seen: Seen) -> Signed | None:
    return _pairs(panel, seen, taken=lambda first, second: first.common != second.common) or _pairs(
        panel, seen, taken=lambda first, second: not (first.common or second.common)
    )


def _all_pairs(panel: _Panel, seen: Seen) -> Signed | None:
    return _pairs(panel, seen, taken=lambda first, second: True, likely=False)


def _pairs(
    panel: _Panel, seen: Seen, *, taken: Callable[[StringMistake, StringMistake], bool], likely: bool = True
) -> Signed | None:
    tried: set[int] = set()  # of hashes: a collision would hide one candidate in 2^64
    right = right_draft(seen)
    for number, first in enumerate(MISTAKES):
        seconds = [second for second in MISTAKES[number:] if taken(first, second)]
        for draft in _apply(first, right, seen, likely=likely) if seconds else ():
            for second in seconds:
                for changed in _apply(second, draft, seen, likely=likely):
                    data = signed_bytes(changed)
                    if hash(data) in tried:
                        continue
                    tried.add(hash(data))
                    if panel.left <= 0:
                        return None
                    answer = panel.match(data)
                    if answer:
                        return _found(answer, seen, (first, draft), (second, changed))
    return None


def _apply(mistake: StringMistake, draft: Draft, seen: Seen, *, likely: bool) -> Iterator[Draft]:
    """What a mistake makes of a draft, each once; the likely ones alone where that is asked for."""
    if draft.instead is not None and not mistake.of_bytes:
        return
    made = {draft}
    for changed in mistake.apply(draft, seen):
        if likely and len(made) > mistake.likely:
            return
        if changed not in made:
            made.add(changed)
            yield changed


def _variants(right: Draft, seen: Seen) -> Iterator[tuple[StringMistake, Draft]]:
    tried = {signed_bytes(right)}
    for mistake in MISTAKES:
        for draft in mistake.apply(right, seen):
            data = signed_bytes(draft)
            if data not in tried:
                tried.add(data)
                yield mistake, draft


_STAGES = (_right, _single, _single_any_hash, _common_pairs, _likely_pairs, _all_pairs)
