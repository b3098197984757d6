"""What drawing a code costs, and what checking it adds."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from io import BytesIO

import segno

from harness import Line, against, within
from tppkit.qr import Payment, make_picture

TEXT = "TX:LT121000011101001000:Bookshop:EUR:12.50:A:Order 4711"


def drawing() -> Iterator[Line]:
    """A payment from its fields to its SVG: as a time, and against the library that draws."""
    yield within("QR SVG", draw, limit_us=6_000, rounds=300)
    yield against("QR SVG, checked and drawn", draw, draw_plainly, what="segno alone", limit=1.1, rounds=300)


def draw() -> str:
    """The code, checked, and its picture."""
    payment = Payment(
        account="LT121000011101001000",
        name="Bookshop",
        currency="EUR",
        amount=Decimal("12.50"),
        type="A",
        message="Order 4711",
    )
    return make_picture(payment).svg()


def draw_plainly() -> str:
    """The same text, unchecked."""
    out = BytesIO()
    segno.make_qr(TEXT, error="m").save(out, kind="svg", scale=8, light="#fff")
    return out.getvalue().decode()
