"""The search for what was signed: the right signing string, then each known mistake in it.

Nothing is guessed without proof: an answer is a byte string under which the signature verifies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tppkit.seals.diagnose.mistakes import Mistake
from tppkit.seals.diagnose.signatures import Judge, Made
from tppkit.seals.diagnose.strings import STRING_MISTAKES, Seen, SigningString

MAX_WORK = 1_400_000  # in units of about two microseconds: a guess costs the judges' `cost` and GUESS_COST
GUESS_COST = 5
MAX_COVERED = 64  # of a longer list only the right string is tried


class Signed(NamedTuple):
    """What was signed, proven by the signature.

    Attributes:
        judge: the key that made it, and how the signature is encoded.
        made: by which scheme and hash.
        mistake: in the signing string; None if that is right.
        string: what was signed.
    """

    judge: Judge
    made: Made
    mistake: Mistake | None
    string: SigningString


class Search(NamedTuple):
    """How a search ended.

    Attributes:
        judges: the keys and readings of the signature that were asked about each guess.
        signed: what was signed; None if it was not found.
        tried: how many byte strings were compared.
        is_complete: the bound on work was not reached.
    """

    judges: Sequence[Judge]
    signed: Signed | None
    tried: int
    is_complete: bool = True

    @property
    def certain(self) -> Judge | None:
        """The key that certainly made the signature, whatever it is over."""
        return next((judge for judge in self.judges if judge.made.certain), None)


def find_signed(judges: Sequence[Judge], right: SigningString, seen: Seen, *, max_work: int) -> Search:
    """Search for what was signed. The right string is tried with every hash, a mistake with the usual one.

    Args:
        judges: whom to ask; without any the search is over.
        right: the signing string as the verifier makes it.
        seen: what the mistakes may use.
        max_work: the bound.
    """
    cost, left, tried = sum(judge.cost for judge in judges), max_work, 0
    for mistake, string in _guesses(right, seen) if judges else ():
        if left <= 0:
            return Search(judges, None, tried, is_complete=False)
        data, tried = string.signed(), tried + 1
        left -= GUESS_COST + (len(data) >> 7) + cost * (5 if mistake is None else 1)
        for judge in judges:
            made = judge.match(data, every_hash=mistake is None)
            if made is not None:
                return Search(judges, Signed(judge, made, mistake, string), tried)
    return Search(judges, None, tried)


def _guesses(right: SigningString, seen: Seen) -> Iterator[tuple[Mistake | None, SigningString]]:
    yield None, right
    for mistake, apply in STRING_MISTAKES.items() if len(right.lines) <= MAX_COVERED else ():
        for string in apply(right, seen):
            yield mistake, string
