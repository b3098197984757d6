"""The search for what was signed: the right signing string, then one change of it, then two.

Nothing is guessed that is not proven: an answer is a byte string under which the signature verifies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric import rsa

from tppkit.certificates import EidasCertificate
from tppkit.errors import FormatError
from tppkit.seals.diagnose.draft import Draft, Seen, right_draft
from tppkit.seals.diagnose.encodings import Decoded, decode_any
from tppkit.seals.diagnose.hashes import SIGNED
from tppkit.seals.diagnose.jws_strings import JWS_HEADER_MISTAKES, JWS_PAYLOAD_MISTAKES
from tppkit.seals.diagnose.lines import LINE_MISTAKES
from tppkit.seals.diagnose.mistake import StringMistake
from tppkit.seals.diagnose.recover import Made, Oracle, Points, make_oracles
from tppkit.seals.diagnose.strings import STRING_MISTAKES, signed_bytes
from tppkit.seals.diagnose.targets import TARGET_MISTAKES
from tppkit.seals.diagnose.values import VALUE_MISTAKES
from tppkit.seals.profile import SealProfile

# In this order changes are made one after the other: values before names, lines before the whole.
MISTAKES: tuple[StringMistake, ...] = (
    *TARGET_MISTAKES, *VALUE_MISTAKES, *LINE_MISTAKES, *JWS_HEADER_MISTAKES, *STRING_MISTAKES,
    *JWS_PAYLOAD_MISTAKES,
)  # fmt: skip

MAX_COVERED = 64  # of a longer list only the right string is tried
MAX_WORK = 1_400_000  # in units of about two microseconds: an answer costs its oracle's `cost`, a draft DRAFT_COST
DRAFT_COST = 5
# So many variants of one mistake are tried in pairs of common ones, then in every pair, before all of them are.
MAX_COMMON, MAX_WIDE = 48, 12
MAX_OTHER_HASH = 64  # variants of one mistake that are tried with other hashes than the dialect's

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
        self._asked: set[int] = set()  # of hashes: a collision would hide one candidate in 2^64
        shared = {judge.oracle.shares: judge.oracle.cost for judge in judges if judge.oracle.shares}
        self._cost = sum(shared.values()) + sum(judge.oracle.cost for judge in judges if not judge.oracle.shares)

    def match(self, data: bytes, *, other_hashes: bool = False) -> tuple[_Judge, Made] | None:
        """Which key made the signature over these bytes, and how; what was asked about before is not compared again."""
        self.left -= DRAFT_COST + (len(data) >> 7)
        if hash((other_hashes, data)) in self._asked:
            return None
        self._asked.add(hash((other_hashes, data)))
        self.left -= self._cost * (len(SIGNED) - 1 if other_hashes else 1)
        self.tried += 1
        points: Points = {}
        for judge in self.judges:
            made = judge.oracle.match(data, other_hashes=other_hashes, points=points)
            if made:
                return judge, made
        return None


def find_signed(
    readings: Sequence[Seen],
    *,
    text: str,
    certificates: Sequence[EidasCertificate],
    profile: SealProfile,
    max_work: int = MAX_WORK,
) -> Search:
    """Find the byte string that was signed.

    Args:
        readings: what the request and its parameters may say, the likeliest first.
        text: of the signature, as written.
        certificates: whose keys may have made it, the likeliest first.
        profile: the dialect, whose hash is tried first.
        max_work: a bound for the search, in units of about two microseconds.
    """
    panel = _Panel(tuple(_judges(text, certificates, profile)), max_work)
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


def _judges(text: str, certificates: Sequence[EidasCertificate], profile: SealProfile) -> Iterator[_Judge]:
    """Each way to read the signature, under each key that can have made it; alone the one that surely did."""
    found: list[_Judge] = []
    for written in _written(text):
        for certificate in certificates:
            if written.name in _OF_NUMBERS and not isinstance(certificate.public_key, rsa.RSAPublicKey):
                continue
            usual_hash = _usual_hash(certificate, profile)
            for oracle in make_oracles(certificate.public_key, written.raw, usual_hash=usual_hash):
                judge = _Judge(certificate, written, oracle)
                if oracle.made.certain:
                    yield judge
                    return
                found.append(judge)
    yield from found


def _usual_hash(certificate: EidasCertificate, profile: SealProfile) -> str | None:
    try:
        return profile.algorithm_for(certificate).hash.name.upper().replace("SHA", "SHA-")
    except FormatError:  # the dialect has no algorithm for this key
        return None


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
    data = signed_bytes(right_draft(seen))
    answer = panel.match(data) or panel.match(data, other_hashes=True)
    return _found(answer, seen) if answer else None


def _single(panel: _Panel, seen: Seen, *, other_hashes: bool = False) -> Signed | None:
    right = right_draft(seen)
    for mistake in MISTAKES:
        for draft in islice(mistake.apply(right, seen), MAX_OTHER_HASH if other_hashes else None):
            if panel.left <= 0:
                return None
            answer = panel.match(signed_bytes(draft), other_hashes=other_hashes)
            if answer:
                return _found(answer, seen, (mistake, draft))
    return None


def _single_other_hash(panel: _Panel, seen: Seen) -> Signed | None:
    if all(judge.oracle.made.hash for judge in panel.judges):
        return None
    return _single(panel, seen, other_hashes=True)


def _common_pairs(panel: _Panel, seen: Seen) -> Signed | None:
    def both(first: StringMistake, second: StringMistake) -> bool:
        return first.common and second.common

    return _pairs(panel, seen, taken=both) or _pairs(panel, seen, taken=both, width=MAX_COMMON, done=0)


def _likely_pairs(panel: _Panel, seen: Seen) -> Signed | None:
    return _pairs(panel, seen, taken=lambda first, second: first.common != second.common) or _pairs(
        panel, seen, taken=lambda first, second: not (first.common or second.common)
    )


def _all_pairs(panel: _Panel, seen: Seen) -> Signed | None:
    return _pairs(
        panel, seen, taken=lambda first, second: not (first.common and second.common), width=MAX_WIDE, done=0
    ) or _pairs(panel, seen, taken=lambda first, second: True, width=None, done=MAX_WIDE)


def _pairs(
    panel: _Panel,
    seen: Seen,
    *,
    taken: Callable[[StringMistake, StringMistake], bool],
    width: int | None = 0,
    done: int | None = None,
) -> Signed | None:
    """Every two mistakes that are taken: the likely variants of each, more up to a width, or all; not those of a width that is done."""
    right = right_draft(seen)
    for number, first in enumerate(MISTAKES):
        seconds = [second for second in MISTAKES[number:] if taken(first, second)]
        for variant, draft in enumerate(_apply(first, right, seen, width=width)) if seconds else ():
            # What is passed over costs little, and is no more than what was paid for at the smaller width.
            known = done if done is not None and variant < _most(first, done) else None
            for second in seconds:
                start = 0 if known is None else _most(second, known)
                for changed in islice(_apply(second, draft, seen, width=width), start, None):
                    if panel.left <= 0:
                        return None
                    answer = panel.match(signed_bytes(changed))
                    if answer:
                        return _found(answer, seen, (first, draft), (second, changed))
    return None


def _most(mistake: StringMistake, width: int) -> int:
    """How many variants of a mistake are tried at a width."""
    return max(width, mistake.likely)


def _apply(mistake: StringMistake, draft: Draft, seen: Seen, *, width: int | None) -> Iterator[Draft]:
    """What a mistake makes of a draft, each once; the first ones, or without a width all."""
    if draft.instead is not None and not mistake.of_bytes:
        return
    made = {draft}
    most = None if width is None else _most(mistake, width)
    for changed in mistake.apply(draft, seen):
        if most is not None and len(made) > most:
            return
        if changed not in made:
            made.add(changed)
            yield changed


_STAGES = (_right, _single, _single_other_hash, _common_pairs, _likely_pairs, _all_pairs)
