"""Codes as pictures: PNG, SVG, and half blocks in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from io import BytesIO
from types import MappingProxyType
from typing import TYPE_CHECKING

from tppkit._extras import needs_extra
from tppkit.errors import ConfigurationError, FormatError
from tppkit.qr.code import Code

if TYPE_CHECKING:
    import segno

MAX_SCALE = 100  # the largest code has then 18,500 pixels a side
QUIET_ZONE = 4  # light modules around the symbol (ISO/IEC 18004 section 9.1)
# Colours of the fixed part of the palette, which terminal themes do not change.
_BLACK_ON_WHITE, _RESET = "\033[38;5;16;48;5;231m", "\033[0m"


class Level(StrEnum):
    """How much of a picture may be damaged: about 7, 15, 25 and 30 percent."""

    L = "L"
    M = "M"
    Q = "Q"
    H = "H"


# Bytes of a code of version 40 in byte mode (ISO/IEC 18004 table 7), and the bytes needed to name UTF-8.
_CAPACITY: Mapping[Level, int] = MappingProxyType({Level.L: 2953, Level.M: 2331, Level.Q: 1663, Level.H: 1273})
_CHARACTER_SET_BYTES = 1


@dataclass(frozen=True, slots=True)
class Picture:
    """A QR code, ready to be drawn in black on white with its quiet zone.

    Attributes:
        text: its text.
        version: its size, 1 to 40; each side has 17 + 4 * version modules.
        level: its error correction, at least the requested level.
    """

    text: str
    version: int
    level: Level
    _symbol: segno.QRCode = field(repr=False, compare=False)

    def png(self, *, scale: int = 8) -> bytes:
        """Return a PNG file with `scale` pixels for each module, from 1 to 100.

        Raises:
            ConfigurationError: `qr.scale`.
        """
        _check_scale(scale)
        out = BytesIO()
        self._symbol.save(out, kind="png", scale=scale, border=QUIET_ZONE)
        return out.getvalue()

    def svg(self, *, scale: int = 8) -> str:
        """Return an SVG element with `scale` units for each module (1 to 100), for a file or for HTML.

        Raises:
            ConfigurationError: `qr.scale`.
        """
        _check_scale(scale)
        out = BytesIO()
        self._symbol.save(
            out, kind="svg", scale=scale, border=QUIET_ZONE, light="#fff", xmldecl=False, svgclass=None, lineclass=None,
            omitsize=True, title="QR code", nl=False,
        )  # fmt: skip
        side = scale * self.width
        size = f'<svg width="{side}" height="{side}" role="img" shape-rendering="crispEdges" '
        return out.getvalue().decode().replace("<svg ", size, 1)

    def terminal(self, *, colour: bool = True) -> str:
        """Return lines of half blocks, two modules for each character.

        Args:
            colour: set black and white with escape sequences, for any background. Without them, light modules are drawn, so the
                picture is correct on a dark background and inverted on a light one.
        """
        blocks = "█▀▄ " if colour else " ▄▀█"  # by two bits, light above and light below
        begin, end = (_BLACK_ON_WHITE, _RESET) if colour else ("", "")
        return "".join(f"{begin}{''.join(blocks[pair] for pair in line)}{end}\n" for line in self._pairs())

    @property
    def width(self) -> int:
        """Modules of each side, quiet zone included; also the columns of the picture in a terminal."""
        return 17 + 4 * self.version + 2 * QUIET_ZONE

    def _pairs(self) -> Iterator[list[int]]:
        # The number of rows is odd, so the last line gets an additional light row.
        light = [[not dark for dark in row] for row in self._symbol.matrix_iter(border=QUIET_ZONE)]
        light.append([True] * len(light))
        for above, below in zip(light[::2], light[1::2], strict=True):
            yield [2 * upper + lower for upper, lower in zip(above, below, strict=True)]


def make_picture(code: Code, *, level: Level = Level.M) -> Picture:
    """Make the picture of a code.

        picture = make_picture(Login("https://shop.example/login/7c1f"))
        picture.svg(), picture.png(scale=8)

    Only codes are accepted, because a provider must not draw approval links (`scaRedirect`) itself.

    Args:
        code: the code.
        level: the minimum error correction; it is raised if the picture does not become larger.

    Raises:
        FormatError: `qr.too-long` at this level.
        ConfigurationError: `extra.missing`.
    """
    return encode_text(code.text, level=level)


def encode_text(text: str, *, level: Level = Level.M) -> Picture:
    """Make the picture of any text; see `make_picture`.

    Raises:
        FormatError: `qr.too-long` at this level.
        ConfigurationError: `extra.missing`.
    """
    with needs_extra("qr"):
        import segno
    _check_capacity(text, level)
    if text.isascii():
        symbol = segno.make_qr(text, error=level, encoding="iso-8859-1")
    else:  # without a name the character set is Latin-1, and some readers guess wrong (assumption qr-charset)
        symbol = segno.make_qr(text, error=level, mode="byte", encoding="utf-8", eci=True)
    return Picture(text, int(symbol.version), Level(symbol.error), symbol)


def _check_scale(scale: int) -> None:
    if not 1 <= scale <= MAX_SCALE:
        raise ConfigurationError("qr.scale", f"a scale of {scale} is not 1 to {MAX_SCALE}")


def _check_capacity(text: str, level: Level) -> None:
    size = len(text.encode())
    limit = _CAPACITY[level] - (0 if text.isascii() else _CHARACTER_SET_BYTES)
    if size > limit:
        raise FormatError("qr.too-long", f"the text has {size} bytes, a code at level {level} holds {limit}")
