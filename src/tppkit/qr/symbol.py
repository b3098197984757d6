"""Find out from a QR code's modules whether it is one part of several, because the library does not report that.

Source: ISO/IEC 18004: 7.4.1 (mode indicators), 7.8 (masks), 7.9 (format information), 8 (structured append).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from zxingcpp import Barcode

# Whether the module in a row and column is dark.
_Dark = Callable[[int, int], bool]

_STRUCTURED_APPEND = 0b0011  # the first header of a part
_LEVELS = {"L": 0b01, "M": 0b00, "Q": 0b11, "H": 0b10}
_FORMAT_DIVISOR, _FORMAT_MASK = 0b10100110111, 0b101010000010010
# The modules of the format information near the upper left corner, from its first bit; mirrored, rows are columns.
_FORMAT_PLACES = (*((8, x) for x in (0, 1, 2, 3, 4, 5, 7, 8)), *((y, 8) for y in (7, 5, 4, 3, 2, 1, 0)))
# Which modules are inverted, by row and column.
_MASKS: Mapping[int, Callable[[int, int], bool]] = MappingProxyType(
    {
        0: lambda y, x: (y + x) % 2 == 0,
        1: lambda y, x: y % 2 == 0,
        2: lambda y, x: x % 3 == 0,
        3: lambda y, x: (y + x) % 3 == 0,
        4: lambda y, x: (y // 2 + x // 3) % 2 == 0,
        5: lambda y, x: y * x % 2 + y * x % 3 == 0,
        6: lambda y, x: (y * x % 2 + y * x % 3) % 2 == 0,
        7: lambda y, x: ((y + x) % 2 + y * x % 3) % 2 == 0,
    }
)


def is_part(code: Barcode) -> bool:
    """Whether the text of a code is one part of a longer text (structured append).

    The first four modules of its content state it. They are read without error correction, so damage to that corner can make a part
    look like a whole code, and a whole code like a part.

    Args:
        code: a code that the library has read.
    """
    image: Any = code.to_image(scale=1, add_quiet_zones=False)
    rows: Any = memoryview(image).tolist()  # upright, 0 is dark
    facts = cast("Mapping[str, str]", code.extra)
    mask, level = int(facts["DataMask"]), _LEVELS[facts["ECLevel"]]

    def seen(y: int, x: int) -> bool:
        return bool(rows[y][x] == 0)

    def mirrored(y: int, x: int) -> bool:
        return bool(rows[x][y] == 0)

    dark = min(seen, mirrored, key=lambda one: _distance(one, level, mask))
    return _mode(dark, len(rows) - 1, _MASKS[mask]) == _STRUCTURED_APPEND


def _distance(dark: _Dark, level: int, mask: int) -> int:
    """Return the number of modules of the format information that differ from a level and mask."""
    expected = _format_information(level << 3 | mask)
    return sum(dark(*place) != bool(expected >> 14 - i & 1) for i, place in enumerate(_FORMAT_PLACES))


def _format_information(data: int) -> int:
    rest = data << 10
    for shift in range(4, -1, -1):
        if rest >> 10 + shift & 1:
            rest ^= _FORMAT_DIVISOR << shift
    return (data << 10 | rest) ^ _FORMAT_MASK


def _mode(dark: _Dark, last: int, inverted: _Dark) -> int:
    """Read the mode indicator: content begins in the lower right corner, two columns wide and upwards."""
    bits = 0
    for y, x in ((last, last), (last, last - 1), (last - 1, last), (last - 1, last - 1)):
        bits = bits << 1 | (dark(y, x) != inverted(y, x))
    return bits
