"""`LOGIN:` codes: a customer scans one to log in at the address in it."""

from __future__ import annotations

from dataclasses import dataclass

from tppkit._addresses import SCHEME, parse_signed_address
from tppkit._encoding import shown
from tppkit.errors import FormatError
from tppkit.qr.characters import check_text

LOGIN_PREFIX = "LOGIN:"


@dataclass(frozen=True, slots=True)
class Login:
    """A login code.

        code = Login("https://shop.example/login/7c1f")
        code.text  # LOGIN:shop.example/login/7c1f

    Anyone can make a login code, and the service signs a GET to any address in it. So compare the address with your own before you
    trust it.

    Attributes:
        url: the whole callback address, https, of a form that `CallbackAddress` accepts.

    Raises:
        FormatError: `qr.address-*`, `qr.character`, `qr.too-long`.

    Source: legacy interface, part B section 4, customer login.
    """

    url: str

    def __post_init__(self) -> None:
        check_text(self.text, what="the login code")
        parse_signed_address(self.url, what="the callback address")

    @property
    def text(self) -> str:
        """`LOGIN:` and the address without `https://`."""
        return LOGIN_PREFIX + self.url.removeprefix(SCHEME)

    @property
    def host(self) -> str:
        """The address's host in lower case; international names in their ASCII form."""
        return parse_signed_address(self.url, what="the callback address").host

    @property
    def port(self) -> int:
        """The address's port."""
        return parse_signed_address(self.url, what="the callback address").port


def parse_login(text: str) -> Login:
    """Read a login code.

        parse_login("LOGIN:shop.example/login/7c1f").url  # https://shop.example/login/7c1f

    Raises:
        FormatError: `qr.unknown`, `qr.address-*`, `qr.character`, `qr.too-long`.
    """
    check_text(text, what="the login code")
    if not text.startswith(LOGIN_PREFIX):
        raise FormatError("qr.unknown", f"a login code begins with {LOGIN_PREFIX}, not {shown(text, limit=12)}")
    return Login(SCHEME + text.removeprefix(LOGIN_PREFIX))
