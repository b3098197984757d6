"""The search for what was signed: the right signing string, then each known mistake in it.

Nothing is guessed without proof: an answer is a byte string under which the signature verifies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tppkit.seals.diagnose.signatures import Judge, Made
from tppkit.seals.diagnose.strings import STRING_MISTAKES, Seen, SigningString

MAX_WORK = 1_400_000  # in units of about two microseconds: a guess costs the judges' `cost` and GUESS_COST
GUESS_COST = 5
MAX_COVERED = 64  # of a longer list only the right string is tried


class Search(NamedTuple):
    """How a search ended.

    Attributes:
        tried: how many byte strings were compared.
        is_complete: the bound on work was not reached.
        judge: the key that made the signature, and how that is encoded; None if neither a string nor the padding proves it.
        made: by which scheme and hash.
        string: what was signed; None if it was not found.
        mistake: its name; None if that is right.
    """

    tried: int
    is_complete: bool = True
    judge: Judge | None = None
    made: Made | None = None
    string: SigningString | None = None
    mistake: str | None = None


def find_signed(judges: Sequence[Judge], right: SigningString, seen: Seen, *, max_work: int) -> Search:
    """Search for what was signed. The right string is tried with every hash, a mistake with the usual one.

    Args:
        judges: whom to ask; without any the search is over.
        right: the signing string as the verifier makes it.
        seen: what the mistakes may use.
        max_work: the bound.
    """
    cost, left, tried = sum(judge.cost for judge in judges), max_work, 0
    certain = next((judge for judge in judges if judge.made.certain), None)
    made = None if certain is None else certain.made
    for mistake, string in _guesses(right, seen) if judges else ():
        if left <= 0:
            return Search(tried, False, certain, made)
        data, tried = string.signed(), tried + 1
        left -= GUESS_COST + (len(data) >> 7) + cost * (5 if mistake is None else 1)
        for judge in judges:
            fitting = judge.match(data, every_hash=mistake is None)
            if fitting is not None:
                return Search(tried, True, judge, fitting, string, mistake)
    return Search(tried, True, certain, made)


def _guesses(right: SigningString, seen: Seen) -> Iterator[tuple[str | None, SigningString]]:
    yield None, right
    for mistake, apply in STRING_MISTAKES.items() if len(right.lines) <= MAX_COVERED else ():
        for string in apply(right, seen):
            yield mistake, string
