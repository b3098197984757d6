"""The report of a diagnosis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tppkit.seals.diagnose.mistakes import Part

_MAX_VISIBLE = 16_384
_MARKS = str.maketrans({"\n": "␊\n", "\r": "␍", "\t": "␉", " ": "·", "\0": "␀"})


class DiagnosisOutcome(StrEnum):
    """How a diagnosis ended."""

    VERIFIES = "verifies"
    EXPLAINED = "explained"
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True, slots=True)
class Cause:
    """One proven reason why a seal does not verify.

    Attributes:
        name: of the mistake; a row of the reference page.
        part: what of the request it is in.
        sentence: what was done.
        evidence: the values that prove it.
        fix: what to do instead.
    """

    name: str
    part: Part
    sentence: str
    evidence: tuple[str, ...]
    fix: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why a sealed request does not verify, as far as it can be proven.

    Attributes:
        outcome: verifies; explained: what was signed and what was hashed is known; or unexplained.
        profile: name of the dialect it was judged by.
        causes: what was proven, in the order of the examination, then the first thing that the verifier rejects besides. There may be
            some even if the whole is not explained.
        expected: the signing string as a verifier makes it; None when the signature's parameters cannot be read. Here and in
            `signed` tokens, keys and card numbers are masked, unless values were asked for.
        signed: what was signed; None if it was not found, or if it is the body and values were not asked for.
        made: how the signature was made, if that is known.
        recovered_hash: the hash that an RSA signature holds, in hexadecimal; empty otherwise.
        excluded: what was examined and is not the cause.
        advice: what to try next, if it is not explained.
        notes: what breaks no seal by itself, such as a Content-Length that is not the body's.
        tried: how many byte strings were compared with the signature.
        first_difference: the first byte at which the signed and the right signing string differ; None if they are equal, or what was
            signed is not known.
    """

    outcome: DiagnosisOutcome
    profile: str
    causes: tuple[Cause, ...] = ()
    expected: bytes | None = None
    signed: bytes | None = None
    made: str = ""
    recovered_hash: str = ""
    excluded: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    tried: int = 0
    first_difference: int | None = None

    @property
    def explained(self) -> bool:
        """The request verifies, or why it does not is proven."""
        return self.outcome is not DiagnosisOutcome.UNEXPLAINED

    def to_object(self) -> Mapping[str, Any]:
        """The same as JSON has it; texts show white space by marks."""
        return {
            "outcome": self.outcome.value,
            "explained": self.explained,
            "profile": self.profile,
            "causes": [
                {
                    "name": c.name,
                    "part": c.part.value,
                    "cause": c.sentence,
                    "evidence": list(c.evidence),
                    "mend": c.fix,
                }
                for c in self.causes
            ],
            "signing_string": None if self.expected is None else visible(self.expected),
            "signed_string": None if self.signed is None else visible(self.signed),
            "first_difference": self.first_difference,
            "made": self.made or None,
            "recovered_hash": self.recovered_hash or None,
            "excluded": list(self.excluded),
            "advice": list(self.advice),
            "notes": list(self.notes),
            "strings_compared": self.tried,
        }


def visible(raw: bytes) -> str:
    """The first 16 KiB as text in which white space and line ends can be seen, and nothing can move a cursor."""
    text = raw[:_MAX_VISIBLE].decode("utf-8", "backslashreplace").translate(_MARKS)
    shown = "".join([c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode("ascii") for c in text])
    return shown + ("…" if len(raw) > _MAX_VISIBLE else "")
