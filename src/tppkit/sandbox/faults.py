"""Named faults of deliveries to test receivers: requested by name, for a number of deliveries.

`deliveries.py` applies faults of transport, the signer of an interface those of bodies and signatures. Faults are kept in memory, so
a restart ends them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tppkit._encoding import shown
from tppkit.errors import FormatError
from tppkit.sandbox.control import Control

FAULTS: Mapping[str, str] = MappingProxyType(
    {
        "duplicate": "sent a second time after it was acknowledged",
        "drop": "never sent, and given up",
        "delay": "put off by delay_s seconds of virtual time",
        "reorder": "the first one of its stream is sent after the second",
        "stale-ver": "a report after the first of its stream has version 0, which is below the first",
        "wrong-key": "signed with a key that the receiver does not have",
        "moved-boundary": "the last character of the signed address is sent with the body",
        "other-der": "the signature is encoded in another way than DER",
        "truncated-body": "the last byte of the signed body is missing",
        "swapped-keys": "signed with the key of the other environment, test or live",
    }
)
OF_TRANSPORT = ("duplicate", "drop", "delay")  # any delivery can have these; the others need a signature or an order
MAX_COUNT = 100_000
MAX_DELAY_S = 10 * 366 * 86_400
_DELAY_S = 60.0


@dataclass(slots=True)
class Fault:
    """A requested fault.

    Attributes:
        name: a key of `FAULTS`.
        count: the remaining number of attempts.
        delay_s: the delay of `delay`, in seconds.
        sender: the sender whose deliveries it applies to; None: all senders.
    """

    name: str
    count: int = 1
    delay_s: float = _DELAY_S
    sender: str | None = None

    def as_object(self) -> dict[str, Any]:
        """The fault as JSON."""
        delay = {"delay_s": self.delay_s} if self.name == "delay" else {}
        sender = {} if self.sender is None else {"sender": self.sender}
        return {"name": self.name, "count": self.count, **delay, **sender}


class Faults:
    """The requested faults, in order.

    Example:
        faults.add(Fault("wrong-key", count=3))
        if faults.take("wrong-key", sender="legacy-test"):
            key = unknown_key
    """

    def __init__(self) -> None:
        self._waiting: list[Fault] = []

    def add(self, fault: Fault) -> None:
        """Request a fault; it is used after earlier ones of the same name."""
        self._waiting.append(fault)

    def take(self, name: str, *, sender: str) -> Fault | None:
        """Use a fault once for a delivery of this sender; None if it is not requested."""
        fault = next((one for one in self._waiting if one.name == name and one.sender in (None, sender)), None)
        if fault is not None:
            fault.count -= 1
            if not fault.count:
                self._waiting.remove(fault)
        return fault

    def control(self, senders: Mapping[str, Collection[str]]) -> tuple[Control, ...]:
        """Return `POST /faults` with `{"name": "delay", "count": 2, "delay_s": 30}`, and `DELETE /faults`; both list the faults.

        Args:
            senders: the names of the faults that can apply to each sender.
        """

        async def add(parameters: Mapping[str, str], body: Any) -> Any:
            self.add(_read(body, senders))
            return [fault.as_object() for fault in self._waiting]

        async def clear(parameters: Mapping[str, str], body: Any) -> Any:
            self._waiting.clear()
            return []

        return Control("POST", "/faults", add), Control("DELETE", "/faults", clear)


def _read(body: Any, senders: Mapping[str, Collection[str]]) -> Fault:
    fields = dict(body) if isinstance(body, dict) else {}
    name, count, delay_s = fields.pop("name", None), fields.pop("count", 1), fields.pop("delay_s", _DELAY_S)
    sender = fields.pop("sender", None)
    if not isinstance(name, str) or fields:
        raise FormatError(
            "model.invalid", 'the body is not {"name": text, "count": number, "delay_s": number, "sender": text}'
        )
    if name not in FAULTS:
        raise FormatError("fault.unknown", f"there is no fault {shown(name)}; there are {', '.join(FAULTS)}")
    if not _is_number(count, int) or not 1 <= count <= MAX_COUNT:
        raise FormatError("model.invalid", f"count is not a whole number from 1 to {MAX_COUNT}")
    if not _is_number(delay_s, int | float) or not 0 <= delay_s <= MAX_DELAY_S:
        raise FormatError("model.invalid", "delay_s is not a number of seconds")
    able = [one for one, names in senders.items() if name in names]
    if sender not in (None, *able):
        raise FormatError("model.invalid", f"sender is not one of {', '.join(able)}")
    return Fault(name, count, float(delay_s), sender)


def _is_number(value: Any, kind: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)
