"""How faults enter the catalogue: each is one function, and its docstring says what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeVar

from tppkit.certificates import Use
from tppkit.testpki.draft import Draft
from tppkit.testpki.faults.case import FAILS, QWAC, SEAL, Bench, Fault, FaultCase

_FAULTS: dict[str, Fault] = {}
FAULTS: Mapping[str, Fault] = MappingProxyType(_FAULTS)

Drafting = TypeVar("Drafting", bound=Callable[[Draft], Draft])
Making = TypeVar("Making", bound=Callable[[Bench], FaultCase])


def qwac_fault(*expected: str, verdict: str = FAILS) -> Callable[[Drafting], Drafting]:
    """A function that makes something wrong of the draft of a QWAC; its chain is sound.

    Args:
        expected: every code that a check gives.
        verdict: what the check gives, one of `case.FAILS`, `case.WARNS` and `case.NOTES`.
    """
    return _draft_fault(QWAC, expected, verdict=verdict)


def seal_fault(*expected: str, verdict: str = FAILS) -> Callable[[Drafting], Drafting]:
    """A function that makes something wrong of the draft of a QSealC; its chain is sound. Arguments as above."""
    return _draft_fault(SEAL, expected, verdict=verdict)


def fault(*expected: str, use: Use = QWAC, verdict: str = FAILS) -> Callable[[Making], Making]:
    """A function that makes a whole case. Arguments as above, and the use that the certificate claims."""

    def register(make: Making) -> Making:
        _add(make.__name__, make.__doc__, use, expected, make, verdict=verdict)
        return make

    return register


def _draft_fault(use: Use, expected: tuple[str, ...], *, verdict: str) -> Callable[[Drafting], Drafting]:
    def register(change: Drafting) -> Drafting:
        def make(bench: Bench) -> FaultCase:
            return bench.changed(use, change)

        _add(change.__name__, change.__doc__, use, expected, make, verdict=verdict)
        return change

    return register


def _add(
    name: str,
    summary: str | None,
    use: Use,
    expected: tuple[str, ...],
    make: Callable[[Bench], FaultCase],
    *,
    verdict: str,
) -> None:
    name = name.replace("_", "-")
    if name in _FAULTS:
        raise ValueError(f"two faults are named {name}")
    _FAULTS[name] = Fault(name, (summary or "").rstrip("."), use, tuple(sorted(expected)), verdict, make)
