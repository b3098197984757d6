"""The form of a choice that the documents leave open."""

from __future__ import annotations

from dataclasses import dataclass


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
