"""QR codes of the legacy interface: login codes, payment codes and scan links as values, texts and pictures.

parse_code("TX:LT121000011101001000:Bookshop:EUR:12.50::Order 4711").amount
make_picture(Login("https://shop.example/login/7c1f")).svg()
"""

from tppkit.qr.code import Code, parse_code
from tppkit.qr.login import Login, parse_login
from tppkit.qr.payment import Payment, parse_payment
from tppkit.qr.picture import Level, Picture, make_picture
from tppkit.qr.reading import read_picture, read_texts
from tppkit.qr.scan import ScanLink, parse_scan_link

__all__ = [
    "Code",
    "Level",
    "Login",
    "Payment",
    "Picture",
    "ScanLink",
    "make_picture",
    "parse_code",
    "parse_login",
    "parse_payment",
    "parse_scan_link",
    "read_picture",
    "read_texts",
]
