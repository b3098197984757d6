"""What a mistake is: one row says what a sender did instead, how to see it, and how to mend it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from tppkit.seals.diagnose.draft import Draft, Seen

MAX_CHANGED_BYTES = 4 * 1024 * 1024  # a longer body is compared as it is


class Part(Enum):
    """What of a sealed request a mistake is in."""

    FORM = "headers"
    COVERAGE = "coverage"
    KEY = "key"
    BODY = "body"
    DIGEST = "digest"
    STRING = "signing string"
    SIGNATURE = "signature"
    DIALECT = "dialect"
    REFUSED = "what the verifier refuses besides"


@dataclass(frozen=True, slots=True)
class Mistake:
    """One row that is seen directly: nothing has to be searched for.

    Attributes:
        name: short, lower case, stable.
        part: what it is in.
        cause: what was done, one sentence.
        mend: what to do instead.
    """

    name: str
    part: Part
    cause: str
    mend: str


@dataclass(frozen=True, slots=True)
class BodyMistake(Mistake):
    """One way in which the bytes that were hashed differ from those that arrived.

    Attributes:
        apply: from the body that arrived, what may have been hashed.
    """

    apply: Callable[[bytes], Iterable[bytes]]


@dataclass(frozen=True, slots=True)
class StringMistake(Mistake):
    """One way in which what was signed differs from the signing string.

    Attributes:
        apply: from the right draft, what may have been signed.
        common: often seen; pairs of common mistakes are tried first.
        likely: how many of its variants, from the first, are tried in pairs before all of them are.
        of_bytes: it can be made in any bytes, also in those that were signed in place of a signing string.
    """

    apply: Callable[[Draft, Seen], Iterable[Draft]]
    common: bool = False
    likely: int = 2
    of_bytes: bool = False


def by_name(rows: Sequence[Mistake]) -> dict[str, Mistake]:
    """Rows by their names."""
    return {row.name: row for row in rows}
