"""The choices that the documents leave open. The rows are in `assumptions.toml`.

Code that depends on a row names it in a comment; a test checks that each named row exists.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Assumption:
    """One open point.

    Attributes:
        id: short name.
        interface: `psd2`, `legacy` or `gateway`; `dialects` for other banks' sealing of PSD2 requests.
        open: what the document does not show.
        choice: what tppkit does.
        why: the reason.
        change: how to change it.
    """

    id: str
    interface: str
    open: str
    choice: str
    why: str
    change: str


def _read() -> tuple[Assumption, ...]:
    text = files("tppkit.protocol").joinpath("assumptions.toml").read_text("utf-8")
    return tuple(Assumption(id_, **row) for id_, row in tomllib.loads(text).items())


ASSUMPTIONS: tuple[Assumption, ...] = _read()
"""Every row, in the order of the documents."""
