"""Codes to draw, and an independent reader of pictures."""

from __future__ import annotations

from decimal import Decimal
from io import BytesIO

import zxingcpp
from PIL import Image

from tppkit.qr import Login, Payment, ScanLink

IBAN = "LT121000011101001000"
PAYMENT = Payment(account=IBAN, name="Bookshop", currency="EUR", amount=Decimal("12.50"), message="Order 4711")
CODES = {
    "login": Login("https://shop.example:8443/login/7c1f?from=qr"),
    "payment": PAYMENT,
    "letters": Payment(account=IBAN, name="Žalioji knyga é 點茗", currency="EUR", amount=Decimal(1), type="Ž"),
    "capitals": Payment(account="+37060000000", name="SHOP", currency="EUR", amount=Decimal("0.01"), message="NO 1"),
    "scan": ScanLink("https://legacy.example/tpp", PAYMENT.text),
    "longest": Payment(account=IBAN, name="n" * 1000, currency="EUR", amount=Decimal(1), message="ž" * 645),
}


def decode(picture: Image.Image) -> list[str]:
    """The texts that zxing-cpp reads in a picture."""
    return [found.text for found in zxingcpp.read_barcodes(picture, text_mode=zxingcpp.TextMode.Plain)]


def decode_file(data: bytes) -> list[str]:
    """The same of a file."""
    return decode(Image.open(BytesIO(data)))
