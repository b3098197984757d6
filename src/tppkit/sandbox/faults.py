"""Named faults to test receivers and clients: requested by name, for a number of deliveries, requests or handshakes.

`deliveries.py` applies faults of transport, the signer of an interface those of bodies and signatures, and `interface_faults.py` those
of answers. Faults are kept in memory, so a restart ends them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
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
EXPIRED = "server-expired"
#: The faults that a client can ask the sandbox for, and what each does.
INTERFACE_FAULTS: Mapping[str, str] = MappingProxyType(
    {
        "status-429": "answered 429 with Retry-After; nothing was done",
        "status-500-before": "answered 500; nothing was done",
        "status-500-after": "answered 500, although the request was carried out",
        "status-503-before": "answered 503 with Retry-After and the code of the interface; nothing was done",
        "status-503-after": "answered 503 by a proxy, with Retry-After and without code, although the request was carried out",
        "reset-after": "the connection is reset after the request was carried out",
        "late": "carried out at once, and answered after delay_s seconds of real time",
        "slow-body": "the body of the answer is sent in pieces over delay_s seconds of real time",
        "truncated": "the connection ends in the middle of the answer",
        "other-answer": "carried out, and answered as if it had been another request, with other ids",
        "no-body": "carried out, and answered with the right status and without a body",
        "html": "answered 200 with the HTML page of a proxy; nothing was done",
        EXPIRED: "the server's certificate in the handshake has expired",
    }
)
MAX_WAITING = 100
MAX_COUNT = 100_000
MAX_DELAY_S = 10 * 366 * 86_400
MAX_WAIT_S = 600  # of real time
_TIMED = ("delay", "late", "slow-body")
_DELAY_S = 60.0

_COUNT = re.compile("[0-9]{1,6}")

Interfaces = Mapping[str, Collection[str]]
_NO_INTERFACES: Interfaces = MappingProxyType({})


@dataclass(slots=True)
class Fault:
    """A requested fault.

    Attributes:
        name: a key of `FAULTS` or `INTERFACE_FAULTS`.
        count: the remaining number of attempts, requests or handshakes.
        delay_s: the delay in seconds, virtual for `delay`, real for `late` and `slow-body`.
        sender: the sender whose deliveries it applies to; None: all senders.
        interface: the interface whose requests it applies to; None for a fault of deliveries.
        endpoint: the name of the row whose requests it applies to; None: all rows.
    """

    name: str
    count: int = 1
    delay_s: float = _DELAY_S
    sender: str | None = None
    interface: str | None = None
    endpoint: str | None = None

    def as_object(self) -> dict[str, Any]:
        """The fault as JSON."""
        delay = {"delay_s": self.delay_s} if self.name in _TIMED else {}
        places = {"sender": self.sender, "interface": self.interface, "endpoint": self.endpoint}
        named = {name: value for name, value in places.items() if value is not None}
        return {"name": self.name, "count": self.count, **delay, **named}


class Faults:
    """The requested faults, in order.

    Args:
        interfaces: the names of the interfaces that can have faults, with those of their endpoints.

    Example:
        faults.add(Fault("wrong-key", count=3))
        if faults.take("wrong-key", sender="legacy-test"):
            key = unknown_key
    """

    def __init__(self, interfaces: Interfaces = _NO_INTERFACES) -> None:
        self._interfaces = interfaces
        self._waiting: list[Fault] = []

    @property
    def is_empty(self) -> bool:
        """Whether no fault is requested."""
        return not self._waiting

    def add(self, fault: Fault) -> None:
        """Request a fault; it is used after earlier ones for the same deliveries, requests or handshakes.

        Raises:
            FormatError: `fault.too-many`, 100 faults wait.
        """
        if len(self._waiting) >= MAX_WAITING:
            raise FormatError("fault.too-many", f"{MAX_WAITING} faults wait to be used")
        self._waiting.append(fault)

    def clear(self) -> None:
        """Remove all faults."""
        self._waiting.clear()

    def take(self, name: str, *, sender: str) -> Fault | None:
        """Use a fault once for a delivery of this sender; None if it is not requested."""
        return self._take(lambda one: one.name == name and one.interface is None and one.sender in (None, sender))

    def take_for_request(self, interface: str, *, endpoint: str | None) -> Fault | None:
        """Use the first fault of an interface once for a request to this endpoint; None if none is requested."""
        return self._take(
            lambda one: one.interface == interface and one.name != EXPIRED and one.endpoint in (None, endpoint)
        )

    def take_for_handshake(self, interface: str) -> bool:
        """Use `server-expired` once for a handshake with this interface; False if it is not requested."""
        return self._take(lambda one: one.interface == interface and one.name == EXPIRED) is not None

    def _take(self, fits: Callable[[Fault], bool]) -> Fault | None:
        fault = next(filter(fits, self._waiting), None)
        if fault is not None:
            fault.count -= 1
            if not fault.count:
                self._waiting.remove(fault)
        return fault

    def control(self, senders: Mapping[str, Collection[str]]) -> tuple[Control, ...]:
        """Return `POST /faults` with `{"name": "delay", "count": 2, "delay_s": 30}`, and `DELETE /faults`; both list the faults.

        A fault of an interface has `{"name": "late", "interface": "psd2"}`, and may have an `endpoint`.

        Args:
            senders: the names of the faults that can apply to each sender.
        """

        async def add(parameters: Mapping[str, str], body: Any) -> Any:
            self.add(_read(body, senders, self._interfaces))
            return [fault.as_object() for fault in self._waiting]

        async def remove(parameters: Mapping[str, str], body: Any) -> Any:
            self.clear()
            return []

        return Control("POST", "/faults", add), Control("DELETE", "/faults", remove)


def parse_fault(text: str, interfaces: Interfaces) -> Fault:
    """Parse a fault of an interface: `INTERFACE NAME [COUNT [ENDPOINT]]`, for example `psd2 status-429 3 initiate_payment`.

    Args:
        text: the fault.
        interfaces: as of `Faults`.

    Raises:
        FormatError: `fault.unknown`, `model.invalid`.
    """
    words = text.split()
    if not 2 <= len(words) <= 4:
        raise FormatError("model.invalid", f"{shown(text)} is not INTERFACE NAME [COUNT [ENDPOINT]]")
    fields: dict[str, Any] = dict(zip(("interface", "name", "count", "endpoint"), words, strict=False))
    if _COUNT.fullmatch(fields.get("count", "")):
        fields["count"] = int(fields["count"])
    return _read(fields, {}, interfaces)


def _read(body: Any, senders: Mapping[str, Collection[str]], interfaces: Interfaces) -> Fault:
    fields = dict(body) if isinstance(body, dict) else {}
    name, interface = fields.pop("name", None), fields.pop("interface", None)
    if not isinstance(name, str):
        raise FormatError("model.invalid", 'the body is no object with the "name" of a fault')
    is_of_interface = interface is not None or name in INTERFACE_FAULTS
    names = INTERFACE_FAULTS if is_of_interface else {**FAULTS, **INTERFACE_FAULTS}
    if name not in names:
        where = "of an interface " if is_of_interface else ""
        raise FormatError("fault.unknown", f"there is no fault {where}{shown(name)}; there are {', '.join(names)}")
    if "delay_s" in fields and name not in _TIMED:
        raise FormatError("model.invalid", f"{name} has no delay_s; only {', '.join(_TIMED)} have one")
    fault = Fault(name, fields.pop("count", 1), fields.pop("delay_s", _DELAY_S), interface=interface)
    fault.sender, fault.endpoint = fields.pop("sender", None), fields.pop("endpoint", None)
    most_s = MAX_WAIT_S if is_of_interface else MAX_DELAY_S
    if fields:
        raise FormatError("model.invalid", "a fault has only name, count, delay_s, sender, interface and endpoint")
    if not _is_number(fault.count, int) or not 1 <= fault.count <= MAX_COUNT:
        raise FormatError("model.invalid", f"count is not a whole number from 1 to {MAX_COUNT}")
    if not _is_number(fault.delay_s, int | float) or not 0 <= fault.delay_s <= most_s:
        raise FormatError("model.invalid", f"delay_s is not a number of seconds up to {most_s}")
    fault.delay_s = float(fault.delay_s)
    if is_of_interface:
        _require_interface(fault, interfaces)
    else:
        _require_sender(fault, senders)
    return fault


def _require_interface(fault: Fault, interfaces: Interfaces) -> None:
    if not isinstance(fault.interface, str) or fault.interface not in interfaces:
        raise FormatError("model.invalid", f"interface is not one of {', '.join(interfaces)}")
    if fault.sender is not None:
        raise FormatError("model.invalid", f"{fault.name} is a fault of an interface, so it has no sender")
    endpoints = interfaces[fault.interface]
    if fault.endpoint is not None and fault.name == EXPIRED:
        raise FormatError("model.invalid", f"{EXPIRED} has no endpoint, because a handshake has none")
    if fault.endpoint not in (None, *endpoints):
        raise FormatError("model.invalid", f"endpoint is not one of {', '.join(endpoints)}")


def _require_sender(fault: Fault, senders: Mapping[str, Collection[str]]) -> None:
    able = [one for one, names in senders.items() if fault.name in names]
    if fault.sender not in (None, *able):
        raise FormatError("model.invalid", f"sender is not one of {', '.join(able)}")
    if fault.endpoint is not None:
        raise FormatError("model.invalid", f"{fault.name} is a fault of deliveries, so it has no endpoint")


def _is_number(value: Any, kind: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)
