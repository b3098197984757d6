"""Read codes from untrusted PNG and JPEG files. Limits bound the cost of a hostile file."""

from __future__ import annotations

from io import BytesIO
from math import isqrt
from typing import TYPE_CHECKING

from tppkit._extras import needs_extra
from tppkit.errors import FormatError
from tppkit.qr.code import Code, parse_code
from tppkit.qr.picture_file import is_jpeg, is_picture, pixels_only
from tppkit.qr.symbol import is_part

if TYPE_CHECKING:
    from PIL.Image import Image
    from zxingcpp import Barcode

MAX_PICTURE_BYTES = 16 * 1024 * 1024
MAX_PICTURE_PIXELS = 16_000_000
MAX_PICTURE_SIDE = 65_535  # the limit of the search
# A little more than a screen of 1920 x 1080. The search compares all pairs of possible corners: at worst it takes two seconds here,
# and a minute for 16 million pixels.
_SEARCHED_PIXELS = 2_100_000


def read_picture(data: bytes) -> Code:
    """Read the only code in a picture.

        read_picture(Path("photo.jpg").read_bytes())  # a Login, Payment or ScanLink

    Args:
        data: a PNG or JPEG file.

    Raises:
        FormatError: `qr.no-code`, `qr.several-codes`, and those of `read_texts` and `parse_code`.
        ConfigurationError: `extra.missing`.
    """
    texts = read_texts(data)
    if not texts:
        raise FormatError("qr.no-code", "no QR code is found in the picture")
    if len(texts) > 1:
        raise FormatError("qr.several-codes", f"the picture has {len(texts)} QR codes, not one")
    return parse_code(texts[0])


def read_texts(data: bytes) -> tuple[str, ...]:
    """Return the texts of all QR codes in a picture.

        for text in read_texts(Path("sheet.png").read_bytes()):
            print(text)  # unchecked

    Args:
        data: a PNG or JPEG file; of an animation, the first picture is read.

    Raises:
        FormatError: `qr.picture-malformed`, `qr.picture-too-large`, `qr.charset`, `qr.part`.
        ConfigurationError: `extra.missing`.
    """
    with needs_extra("scan"):
        from zxingcpp import BarcodeFormat, BarcodeFormats, TextMode, read_barcodes

        picture = _load(data)
    try:
        found = read_barcodes(picture, formats=BarcodeFormats(BarcodeFormat.QRCodeModel2), text_mode=TextMode.Plain)
    except Exception as e:  # noqa: BLE001  # errors of the C++ library
        raise FormatError("qr.picture-malformed", f"the picture cannot be searched: {type(e).__name__}") from None
    return tuple(_text(code) for code in found)


def _load(data: bytes) -> Image:
    # Use the file classes directly, so that no other format is parsed and only the limits here apply.
    from PIL.JpegImagePlugin import JpegImageFile
    from PIL.PngImagePlugin import PngImageFile

    if not is_picture(data):
        raise FormatError("qr.picture-malformed", "the picture is not a PNG or JPEG file")
    if len(data) > MAX_PICTURE_BYTES:
        raise FormatError(
            "qr.picture-too-large", f"the picture has {len(data)} bytes, the limit is {MAX_PICTURE_BYTES}"
        )
    opened = JpegImageFile if is_jpeg(data) else PngImageFile
    pixels = BytesIO(pixels_only(data))
    try:
        with opened(pixels) as file:
            if file.width * file.height > MAX_PICTURE_PIXELS or max(file.size) > MAX_PICTURE_SIDE:
                size = f"{file.width} x {file.height}"
                raise FormatError(
                    "qr.picture-too-large",
                    f"the picture is {size}; the limit is {MAX_PICTURE_PIXELS} pixels, and {MAX_PICTURE_SIDE} for each side",
                )
            return _grey_on_white(_in_eight_bits(file)).reduce(
                1 + isqrt((file.width * file.height - 1) // _SEARCHED_PIXELS)
            )
    except FormatError:
        raise
    except Exception as e:  # noqa: BLE001  # pillow's readers raise any class
        raise FormatError("qr.picture-malformed", f"the picture cannot be read: {type(e).__name__}") from None


def _in_eight_bits(picture: Image) -> Image:
    """Scale 16-bit grey to 8 bits, because pillow would clip it at 255."""
    if not picture.mode.startswith("I"):
        return picture
    scaled = picture.convert("I").point(lambda grey: grey * (1 / 256)).convert("L")
    if "transparency" in picture.info:
        scaled.info["transparency"] = picture.info["transparency"] // 256
    return scaled


def _grey_on_white(picture: Image) -> Image:
    if not picture.has_transparency_data:
        return picture.convert("L")
    opaque = picture.convert("RGBA")
    ground = opaque.copy()
    ground.paste((255, 255, 255, 255), (0, 0, *opaque.size))
    ground.alpha_composite(opaque)
    return ground.convert("L")


def _text(code: Barcode) -> str:
    """Return the text in UTF-8 if the bytes and the library's guess agree (assumption qr-charset)."""
    if is_part(code):
        raise FormatError(
            "qr.part",
            "the QR code is one part of a text in several codes, or the corner with this information is damaged",
        )
    try:
        text = code.bytes.decode("utf-8")
    except UnicodeDecodeError:
        text = None
    if text is None or text != code.text:
        raise FormatError("qr.charset", "the QR code's text is not in UTF-8, or names another character set")
    return text
