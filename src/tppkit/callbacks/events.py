"""The event of a callback: the kind of its address, not the body, decides how the body is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tppkit.callbacks.addresses import CallbackKind
from tppkit.protocol.legacy import AccessGranted, LoginConfirmed, Transaction
from tppkit.protocol.wire import WireModel

CallbackEvent = AccessGranted | Transaction | LoginConfirmed

# An attacker can make the service POST a customer's data to any address, with a LOGIN code that names the address. So the
# address decides the type of the body. PSD2 document, part B section 6.
_READERS: Mapping[CallbackKind, Callable[[bytes], CallbackEvent]] = MappingProxyType(
    {
        CallbackKind.ACCESS: AccessGranted.from_wire,
        CallbackKind.PAYMENT: Transaction.from_wire,
        CallbackKind.LOGIN: LoginConfirmed.from_wire,
    }
)


def parse_event(body: bytes, *, kind: CallbackKind) -> CallbackEvent | None:
    """Read the event of a POST.

    Args:
        body: the raw bytes.
        kind: the kind of the address.

    Returns:
        The event; None for kind `other`, whose body is only checked to be a JSON object.

    Raises:
        FormatError: `json.*`, `model.invalid`.
    """
    read = _READERS.get(kind)
    if read is None:
        WireModel.from_wire(body)
        return None
    return read(body)
