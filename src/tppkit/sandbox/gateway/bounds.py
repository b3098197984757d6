"""Limits of an order's size, and of the attempts and linked orders in its answers (assumption order-bounds)."""

from __future__ import annotations

from tppkit.errors import FormatError, LocalProtocolError

MAX_TERMS_BYTES = 16 * 1024
MAX_LISTED = 100


def require_short(terms: bytes) -> bytes:
    """Return the merchant's fields of an order if they are not too long.

    Raises:
        FormatError: `message.too-large`.
    """
    if len(terms) > MAX_TERMS_BYTES:
        raise FormatError("message.too-large", f"the order has {len(terms)} bytes, the limit is {MAX_TERMS_BYTES}")
    return terms


def require_room(listed: int) -> None:
    """Check that an order can have another attempt or linked order, or a link another order.

    Args:
        listed: the current number.

    Raises:
        LocalProtocolError: `order.too-many`.
    """
    if listed >= MAX_LISTED:
        raise LocalProtocolError("order.too-many", f"there are already {listed}, the limit is {MAX_LISTED}")
