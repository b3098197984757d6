"""Reduce untrusted PNG and JPEG files to their pixels before a library reads them.

Metadata (profiles, Exif, comments) can cost libraries unbounded time, and is not needed to find a code.
Sources: PNG third edition section 5; ITU-T T.81 annex B.
"""

from __future__ import annotations

import re

from tppkit.errors import FormatError

_PNG, _JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"
_MAX_CHUNKS = 10_000  # chunks of pixels usually have 8 KiB and more; a million empty ones take seconds
_PIXEL_CHUNKS = frozenset({b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND"})
_MAX_SEGMENTS = 1_000  # 16 MiB of Exif are 256
_MAX_SCANS = 64  # a progressive picture has about ten, and each passes over all pixels
_MARKER = re.compile(rb"\xff([\x01-\xfe])")
_START_OF_SCAN, _COMMENT = 0xDA, 0xFE
_WITHOUT_LENGTH = frozenset({0x01, *range(0xD0, 0xDA)})  # TEM, RST, SOI, EOI
# All except APP0 (JFIF) and APP14 (Adobe), which define the encoding of colours.
_BESIDE_PIXELS = frozenset({*range(0xE1, 0xEE), 0xEF, _COMMENT})
# Marker, length, number of components (T.81 section B.2.3). Cameras append videos, in which the marker alone is common.
_SCAN = re.compile(rb"\xff\xda\x00(?:\x08\x01|\x0a\x02|\x0c\x03|\x0e\x04)")


def is_picture(data: bytes) -> bool:
    """Whether bytes begin like a PNG or JPEG file."""
    return data.startswith((_PNG, _JPEG))


def is_jpeg(data: bytes) -> bool:
    """Whether bytes begin like a JPEG file."""
    return data.startswith(_JPEG)


def pixels_only(data: bytes) -> bytes:
    """Return the picture without metadata.

    Args:
        data: a PNG or JPEG file.

    Raises:
        FormatError: `qr.picture-too-large`, too many chunks, segments or scans; `qr.picture-malformed`.
    """
    return _pixels_of_jpeg(data) if is_jpeg(data) else _pixels_of_png(data)


def _pixels_of_png(png: bytes) -> bytes:
    kept, at = [_PNG], len(_PNG)
    for _ in range(_MAX_CHUNKS):
        if at >= len(png):
            return b"".join(kept)
        end = at + 12 + int.from_bytes(png[at : at + 4], "big")  # length, kind, data, checksum
        if png[at + 4 : at + 8] in _PIXEL_CHUNKS:
            kept.append(png[at:end])
        at = end
    raise FormatError("qr.picture-too-large", f"the picture has more than {_MAX_CHUNKS} chunks")


def _pixels_of_jpeg(jpeg: bytes) -> bytes:
    if len(_SCAN.findall(jpeg)) > _MAX_SCANS:
        raise FormatError("qr.picture-too-large", f"the picture has more than {_MAX_SCANS} scans")
    kept, at = [jpeg[:2]], 2
    for _ in range(_MAX_SEGMENTS):
        marker = _MARKER.search(jpeg, at)  # some cameras pad segments
        if marker is None:
            raise FormatError("qr.picture-malformed", f"the picture has no marker after byte {at}")
        kind, begin = marker[1][0], marker.end()
        if kind == _START_OF_SCAN:
            return b"".join([*kept, jpeg[begin - 2 :]])
        at = begin if kind in _WITHOUT_LENGTH else begin + _length(jpeg, begin)
        if kind not in _BESIDE_PIXELS:
            kept.append(jpeg[begin - 2 : at])
    raise FormatError("qr.picture-too-large", f"the picture has more than {_MAX_SEGMENTS} segments")


def _length(jpeg: bytes, at: int) -> int:
    length = int.from_bytes(jpeg[at : at + 2], "big")  # counts its own two bytes
    if length < 2 or at + length > len(jpeg):
        raise FormatError("qr.picture-malformed", f"the segment at byte {at} does not end within the picture")
    return length
