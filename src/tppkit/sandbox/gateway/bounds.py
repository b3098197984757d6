"""How large an order can be, and how many others its answers list (assumption order-bounds)."""

from __future__ import annotations

from tppkit.errors import FormatError, LocalProtocolError

MAX_TERMS_BYTES = 16 * 1024
MAX_LISTED = 100


def require_short(terms: bytes) -> bytes:
    """Return what a merchant sends of an order, if it is not too long.

    Raises:
        FormatError: `message.too-large`.
    """
    if len(terms) > MAX_TERMS_BYTES:
        raise FormatError("message.too-large", f"the order has {len(terms)} bytes, and {MAX_TERMS_BYTES} are possible")
    return terms


def require_room(listed: int) -> None:
    """Check that an order can have another attempt or linked order, or a link another order.

    Args:
        listed: how many it has.

    Raises:
        LocalProtocolError: `order.too-many`.
    """
    if listed >= MAX_LISTED:
        raise LocalProtocolError("order.too-many", f"there are {listed} already, and {MAX_LISTED} are possible")
