"""State machines as tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Generic, TypeVar

from tppkit.errors import LocalProtocolError

State = TypeVar("State", bound=str)
Trigger = TypeVar("Trigger", bound=str)


@dataclass(frozen=True, slots=True)
class Machine(Generic[State, Trigger]):
    """A transition table.

    Attributes:
        initial: the first state.
        moves: the next state by (state, trigger); other moves are not allowed.
        final: the states without moves.
    """

    initial: State
    moves: Mapping[tuple[State, Trigger], State]
    final: frozenset[State] = field(init=False)

    def __post_init__(self) -> None:
        final = set(self.moves.values()) - {state for state, _ in self.moves}
        object.__setattr__(self, "final", frozenset(final))
        object.__setattr__(self, "moves", MappingProxyType(dict(self.moves)))

    def move(self, state: State, trigger: Trigger) -> State:
        """The state after `trigger`.

        Raises:
            LocalProtocolError: `machine.no-such-move`.
        """
        after = self.moves.get((state, trigger))
        if after is None:
            raise LocalProtocolError("machine.no-such-move", f"{trigger} cannot happen in state {state}")
        return after
