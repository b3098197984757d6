"""Bodies under a content or transfer coding: compressed, or in chunks, on one side of the hash and not on the other."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Iterator

from tppkit.seals.diagnose.mistake import MAX_CHANGED_BYTES, BodyMistake, Part

MAX_COMPRESSED_BYTES = 256 * 1024

# RFC 1952 section 2.3.1: level, the flags that tell of it, and what is written for the operating system.
_GZIP_WRITERS = ((6, 0, (0, 3, 255)), (9, 2, (3, 255)))
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})(?:;[^\r\n]{0,256})?\r\n")
_COMPRESSED = "Hash the bytes that are sent, compressed or not; better, send the body uncompressed."
_CHUNKS = "Judge and keep the body as it is after the transfer coding is taken off, as every HTTP library gives it."


def _gzipped_away(body: bytes) -> Iterator[bytes]:
    """What is inside a compressed body, if that is not too long."""
    if body.startswith(b"\x1f\x8b"):
        reader = zlib.decompressobj(wbits=31)
        try:
            inside = reader.decompress(body, MAX_CHANGED_BYTES)
        except zlib.error:
            return
        if reader.eof:
            yield inside


def _gzipped(body: bytes) -> Iterator[bytes]:
    """The body compressed as usual writers do it without a time: those of Java, Node.js, Python and gzip itself."""
    if not body or len(body) > MAX_COMPRESSED_BYTES:
        return
    end = zlib.crc32(body).to_bytes(4, "little") + len(body).to_bytes(4, "little")
    for level, flags, systems in _GZIP_WRITERS:
        writer = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
        content = writer.compress(body) + writer.flush()
        for system in systems:
            yield b"\x1f\x8b\x08\0\0\0\0\0" + bytes((flags, system)) + content + end


def _inflated(body: bytes) -> Iterator[bytes]:
    """What is inside a body under Content-Encoding: deflate, which some write without the frame of zlib."""
    for wbits in (15, -15):
        reader = zlib.decompressobj(wbits=wbits)
        try:
            inside = reader.decompress(body, MAX_CHANGED_BYTES)
        except zlib.error:
            continue
        if reader.eof and not reader.unused_data:
            yield inside


def _deflated(body: bytes) -> Iterator[bytes]:
    """The body under Content-Encoding: deflate, with the frame of zlib and without."""
    if body and len(body) <= MAX_COMPRESSED_BYTES:
        for level in (6, 9):
            for wbits in (zlib.MAX_WBITS, -zlib.MAX_WBITS):
                writer = zlib.compressobj(level, zlib.DEFLATED, wbits)
                yield writer.compress(body) + writer.flush()


def _without_chunks(body: bytes) -> Iterator[bytes]:
    """What is inside a body in chunks, if that is whole (RFC 9112 section 7.1)."""
    parts: list[bytes] = []
    position = 0
    while (size := _CHUNK_SIZE.match(body, position)) is not None:
        start, length = size.end(), int(size[1], 16)
        position = start + length + 2
        if length == 0:
            if parts and body[start:] in (b"\r\n", b""):
                yield b"".join(parts)
            return
        if body[position - 2 : position] != b"\r\n":
            return
        parts.append(body[start : position - 2])


def _row(name: str, cause: str, apply: Callable[[bytes], Iterable[bytes]], mend: str = _COMPRESSED) -> BodyMistake:
    return BodyMistake(name, Part.BODY, cause, mend, apply)


CODED_BODY_MISTAKES: tuple[BodyMistake, ...] = (
    _row("body-gzip", "The body that arrived is compressed (gzip), and what was hashed is what it holds.", _gzipped_away),
    _row("body-gzipped", "The body arrived uncompressed, and what was hashed is the same body compressed (gzip).", _gzipped),
    _row("body-deflate", "The body that arrived is compressed (deflate), and what was hashed is what it holds.", _inflated),
    _row("body-deflated", "The body arrived uncompressed, and what was hashed is the same body compressed (deflate).", _deflated),
    _row("body-chunked", "The body still has the frame of a chunked transfer around it, and what was hashed is what it holds.",
         _without_chunks, _CHUNKS),
)  # fmt: skip
