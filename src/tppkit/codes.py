"""Every code: what it means and what to do. The rows are in `codes.toml`; a test compares them with the source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple


class Code(NamedTuple):
    """The explanation of one code.

    Attributes:
        meaning: what is wrong, and why.
        hint: what to do.
        stable: whether later versions keep the code and its meaning; otherwise it belongs to a tool for development, and may change.
    """

    meaning: str
    hint: str
    stable: bool


# Groups of codes that no release promises: those of the sandbox's controls, and of files of requests that `seal diagnose` reads.
UNSTABLE = frozenset({"control", "curl", "fault", "har", "inspector", "sandbox"})


class _Codes(Mapping[str, Code]):
    """The rows of `codes.toml`, parsed at the first look-up: most processes import this module and need no text."""

    @cached_property
    def _rows(self) -> Mapping[str, Code]:
        import tomllib
        from importlib.resources import files

        rows = tomllib.loads(files("tppkit").joinpath("codes.toml").read_text("utf-8"))
        return {
            code: Code(meaning, hint, code.partition(".")[0] not in UNSTABLE) for code, (meaning, hint) in rows.items()
        }

    def __getitem__(self, code: str) -> Code:
        return self._rows[code]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


CODES: Mapping[str, Code] = _Codes()
"""The explanation of each code, in alphabetical order."""
