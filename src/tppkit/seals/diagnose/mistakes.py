"""The known mistakes, read from `mistakes.toml`: what a sender did, and what to do instead.

Rows of a body are made by `bodies`, rows of a signing string by `strings`; the examination itself recognises the others.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from importlib.resources import files
from types import MappingProxyType


class Part(Enum):
    """The part of a sealed request that a mistake is in."""

    BODY = "body"
    STRING = "signing string"
    FORM = "headers"
    COVERAGE = "coverage"
    KEY = "key"
    DIGEST = "digest"
    SIGNATURE = "signature"
    DIALECT = "dialect"
    REFUSED = "what the verifier refuses besides"


@dataclass(frozen=True, slots=True)
class Mistake:
    """One known mistake.

    Attributes:
        name: short, lower case, stable.
        part: what it is in.
        cause: what the sender did, one sentence.
        fix: what to do instead.
    """

    name: str
    part: Part
    cause: str
    fix: str


def _read() -> Iterator[Mistake]:
    text = files("tppkit.seals.diagnose").joinpath("mistakes.toml").read_text("utf-8")
    for part, rows in tomllib.loads(text).items():
        usual = rows.pop("fix", "")
        for name, (cause, *fix) in rows.items():
            yield Mistake(name, Part(part), cause, *(fix or [usual]))


MISTAKES: Mapping[str, Mistake] = MappingProxyType({row.name: row for row in _read()})
