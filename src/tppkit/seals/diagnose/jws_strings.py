"""Mistakes in what was signed that only a JSON Web Signature can have: in its protected header, and its payload."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tppkit._encoding import encode_base64url
from tppkit.seals.diagnose.draft import Draft, Seen
from tppkit.seals.diagnose.jws_form import decode_loosely, split_jws
from tppkit.seals.diagnose.mistake import Part, StringMistake


def _header_as_json(draft: Draft, seen: Seen) -> Iterator[Draft]:
    text = decode_loosely(draft.prefix.removesuffix("."))
    if text.isascii() and text:
        yield draft._replace(prefix=f"{text.decode('ascii')}.")


def _header_written_otherwise(draft: Draft, seen: Seen) -> Iterator[Draft]:
    header = split_jws(draft.prefix).header
    for text in _serialised(header) if header else ():
        yield draft._replace(prefix=f"{encode_base64url(text.encode())}.")


def _serialised(header: Mapping[str, Any]) -> Iterator[str]:
    """A protected header as serialisers write it: in the order of its names, by name, the other way round."""
    names = tuple(header)
    for order in dict.fromkeys((names, tuple(sorted(names)), names[::-1])):
        ordered = {name: header[name] for name in order}
        compact = json.dumps(ordered, separators=(",", ":"), ensure_ascii=False)
        yield compact
        yield json.dumps(ordered, ensure_ascii=False)  # Python
        yield compact.replace("/", "\\/")  # PHP
        yield compact.replace("+", "\\u002B")  # .NET
        yield compact.replace("=", "\\u003d")  # Gson


def _own_payload(draft: Draft, seen: Seen) -> Iterator[Draft]:
    if draft.prefix and seen.payload:
        yield draft._replace(instead=f"{draft.prefix}{seen.payload}".encode("latin-1"))
        yield draft._replace(instead=draft.prefix.encode("ascii") + decode_loosely(seen.payload))


# The first changes the text of the header, the second how it is encoded: so both can be made.
JWS_HEADER_MISTAKES: tuple[StringMistake, ...] = (
    StringMistake("jws-header-serialised-again", Part.STRING,
                  "The protected header that was signed is the same JSON written otherwise than the one that was sent.",
                  "Encode the protected header once, keep the text, sign it and send the same text.", _header_written_otherwise),
    StringMistake("jws-header-not-encoded", Part.STRING, "The protected header was signed as JSON, and not in base64url as it is sent.",
                  "Sign the encoded protected header, a point, and the lines.", _header_as_json),
)  # fmt: skip
JWS_PAYLOAD_MISTAKES: tuple[StringMistake, ...] = (
    StringMistake("jws-payload-other", Part.STRING,
                  "What was signed is the payload that the JSON Web Signature carries, which is not the lines of the fields.",
                  "Sign the encoded protected header, a point, and the lines of the fields that sigD names.", _own_payload),
)  # fmt: skip
