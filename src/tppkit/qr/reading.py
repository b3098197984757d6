"""Pictures of codes, read: PNG and JPEG files from anybody. Limits bound what a hostile file can cost."""

from __future__ import annotations

from io import BytesIO
from math import isqrt
from typing import TYPE_CHECKING

from tppkit._extras import missing_extra
from tppkit.errors import FormatError
from tppkit.qr.code import Code, parse_code
from tppkit.qr.picture_file import is_jpeg, is_picture, pixels_only
from tppkit.qr.symbol import is_part

if TYPE_CHECKING:
    from PIL.Image import Image
    from zxingcpp import Barcode

MAX_PICTURE_BYTES = 16 * 1024 * 1024
MAX_PICTURE_PIXELS = 16_000_000
MAX_PICTURE_SIDE = 65_535  # of what the search takes
# The search compares all that looks like a code's corner: at worst it takes two seconds here, and a minute in 16 million. It is
# the area of a screen of 1920 x 1080, a little more.
_SEARCHED_PIXELS = 2_100_000


def read_picture(data: bytes) -> Code:
    """Read the one code in a picture.

    Args:
        data: a PNG or JPEG file.

    Raises:
        FormatError: `qr.no-code`, `qr.several-codes`, and what `read_texts` and `parse_code` raise.
        ConfigurationError: `extra.missing`.
    """
    texts = read_texts(data)
    if not texts:
        raise FormatError("qr.no-code", "no QR code is found in the picture")
    if len(texts) > 1:
        raise FormatError(
            "qr.several-codes", f"the picture holds {len(texts)} QR codes, and which is meant is not known"
        )
    return parse_code(texts[0])


def read_texts(data: bytes) -> tuple[str, ...]:
    """The texts of all QR codes in a picture, whatever they say.

    Args:
        data: a PNG or JPEG file; of an animation the first picture is read.

    Raises:
        FormatError: `qr.picture-malformed`, `qr.picture-too-large`, `qr.charset`, `qr.part`.
        ConfigurationError: `extra.missing`.
    """
    try:
        from zxingcpp import BarcodeFormat, BarcodeFormats, TextMode, read_barcodes

        picture = _load(data)
    except ImportError as e:
        raise missing_extra("scan", e) from e
    try:
        found = read_barcodes(picture, formats=BarcodeFormats(BarcodeFormat.QRCodeModel2), text_mode=TextMode.Plain)
    except Exception as e:  # noqa: BLE001  # as below, in C++
        raise FormatError("qr.picture-malformed", f"the picture cannot be searched: {type(e).__name__}") from None
    return tuple(_text(code) for code in found)


def _load(data: bytes) -> Image:
    # The file classes are named, not looked up: no other format is parsed, and the size is judged by our limit alone.
    from PIL.JpegImagePlugin import JpegImageFile
    from PIL.PngImagePlugin import PngImageFile

    if not is_picture(data):
        raise FormatError("qr.picture-malformed", "the picture is no PNG or JPEG file")
    if len(data) > MAX_PICTURE_BYTES:
        raise FormatError("qr.picture-too-large", f"the picture has {len(data)} bytes, {MAX_PICTURE_BYTES} are read")
    opened = JpegImageFile if is_jpeg(data) else PngImageFile
    pixels = BytesIO(pixels_only(data))
    try:
        with opened(pixels) as file:
            if file.width * file.height > MAX_PICTURE_PIXELS or max(file.size) > MAX_PICTURE_SIDE:
                size = f"{file.width} x {file.height}"
                raise FormatError(
                    "qr.picture-too-large",
                    f"the picture is {size}; {MAX_PICTURE_PIXELS} pixels are read, {MAX_PICTURE_SIDE} a side",
                )
            return _grey_on_white(_in_eight_bits(file)).reduce(
                1 + isqrt((file.width * file.height - 1) // _SEARCHED_PIXELS)
            )
    except FormatError:
        raise
    except Exception as e:  # noqa: BLE001  # its readers raise whatever the fault leads to
        raise FormatError("qr.picture-malformed", f"the picture cannot be read: {type(e).__name__}") from None


def _in_eight_bits(picture: Image) -> Image:
    """Grey of 16 bits scaled, which pillow would cut off at 255."""
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
    """The text in UTF-8, where the bytes alone and the reader's guess agree (assumption qr-charset)."""
    if is_part(code):
        raise FormatError(
            "qr.part",
            "the QR code says that it holds one part of a text that several codes share, or the corner that says so is damaged",
        )
    try:
        text = code.bytes.decode("utf-8")
    except UnicodeDecodeError:
        text = None
    if text is None or text != code.text:
        raise FormatError("qr.charset", "the QR code's text is not in UTF-8, or says that it is not")
    return text
