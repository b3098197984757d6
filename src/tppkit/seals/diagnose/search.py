"""The search for what was signed: the right signing string, then one mistake in it, then two.

Nothing is guessed without proof: an answer is a byte string under which the signature verifies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, islice
from types import MappingProxyType
from typing import NamedTuple

from tppkit.seals.diagnose.mistakes import Mistake
from tppkit.seals.diagnose.signatures import Judge, Made
from tppkit.seals.diagnose.strings import LINE_MISTAKES, WHOLE_MISTAKES, Apply, Seen, SigningString
from tppkit.seals.diagnose.targets import TARGET_MISTAKES

# Mistakes are made in this order: values before names, lines before the whole.
STRING_MISTAKES: Mapping[Mistake, Apply] = MappingProxyType(dict((*TARGET_MISTAKES, *LINE_MISTAKES, *WHOLE_MISTAKES)))

MAX_WORK = 1_400_000  # in units of about two microseconds: a guess costs the judges' `cost` and GUESS_COST
GUESS_COST = 5
MAX_COVERED = 64  # of a longer list only the right string is tried
WIDTH = 16  # so many variants of each mistake are tried in pairs
# Together they replace one base path by another, over a target that was never signed.
_NO_PAIR = ("target-base-path-stripped", "target-base-path-removed")


class Signed(NamedTuple):
    """What was signed, proven by the signature.

    Attributes:
        judge: the key that made it, and how the signature is encoded.
        made: by which scheme and hash.
        mistakes: in the signing string, in the order in which they were made.
        steps: the right signing string, then the one after each mistake; the last was signed.
    """

    judge: Judge
    made: Made
    mistakes: tuple[Mistake, ...]
    steps: tuple[SigningString, ...]


class Search:
    """One search, with the work that it did.

    Attributes:
        judges: the keys and readings of the signature that are asked about each guess.
        tried: how many byte strings were compared.
        left: the work that is left.
    """

    def __init__(self, judges: Sequence[Judge], *, max_work: int) -> None:
        self.judges = judges
        self.tried = 0
        self.left = max_work
        self._cost = sum(judge.cost for judge in judges)
        self._asked: set[int] = set()  # hashes: a collision would hide one guess in 2^64

    @property
    def certain(self) -> Judge | None:
        """The key that certainly made the signature, whatever it is over."""
        return next((judge for judge in self.judges if judge.made.certain), None)

    def find(self, right: SigningString, seen: Seen) -> Signed | None:
        """What was signed, or None if it was not found within the bound.

        Args:
            right: the signing string as the verifier makes it.
            seen: what the mistakes may use.
        """
        if not self.judges:
            return None
        guesses = self._guesses(right, seen) if len(right.lines) <= MAX_COVERED else iter([((), (right,), True)])
        for mistakes, steps, every_hash in guesses:
            if self.left <= 0:
                return None
            answer = self._match(steps[-1].signed(), every_hash=every_hash)
            if answer is not None:
                return Signed(*answer, mistakes, steps)
        return None

    def _guesses(
        self, right: SigningString, seen: Seen
    ) -> Iterator[tuple[tuple[Mistake, ...], tuple[SigningString, ...], bool]]:
        yield (), (right,), True
        for every_hash in (False,) if all(judge.made.hash for judge in self.judges) else (False, True):
            for mistake, apply in STRING_MISTAKES.items():
                for string in apply(right, seen):
                    yield (mistake,), (right, string), every_hash
        for (first, apply), (second, apply_second) in combinations(STRING_MISTAKES.items(), 2):
            if (first.name, second.name) == _NO_PAIR:
                continue
            for string in islice(apply(right, seen), WIDTH):
                if string.instead is None or second.name.startswith("hashed"):
                    for both in islice(apply_second(string, seen), WIDTH):
                        yield (first, second), (right, string, both), False

    def _match(self, data: bytes, *, every_hash: bool) -> tuple[Judge, Made] | None:
        self.left -= GUESS_COST + (len(data) >> 7)
        if hash((every_hash, data)) in self._asked:
            return None
        self._asked.add(hash((every_hash, data)))
        self.left -= self._cost * (4 if every_hash else 1)
        self.tried += 1
        for judge in self.judges:
            made = judge.match(data, every_hash=every_hash)
            if made is not None:
                return judge, made
        return None
