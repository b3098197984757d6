"""One row an endpoint: the client builds requests from it, the sandbox routes by it, documents list it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote, unquote

MAX_PATH = 4096

_PARAMETER = re.compile(r"\{([a-z_]+)\}")
# A parameter on the wire, and what it may hold (assumption path-form): the unreserved characters (RFC 3986 section 2.3), which
# no other reader of the path decodes again, cuts off at a semicolon or takes for other segments.
_SEGMENT = r"((?:[A-Za-z0-9._~-]|%[0-9A-Fa-f]{2})+)"
_VALUE = re.compile(r"(?!\.\.?\Z)[A-Za-z0-9._~-]+")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One endpoint.

    Attributes:
        name: short name, the same in the client's method and the sandbox's handler.
        method: HTTP method.
        path: path with `{parameter}` places, from the host's root.
        signed: the request must carry a seal.
        role: the PSD2 role the QWAC must have, or None.
        success: HTTP status of success.
        source: where the row stands.
    """

    name: str
    method: str
    path: str
    signed: bool
    role: str | None
    success: int
    source: str

    def target(self, **parameters: str) -> str:
        """The request target with these parameters, each percent-encoded as one path segment."""
        return _PARAMETER.sub(lambda match: quote(parameters[match.group(1)], safe=""), self.path)

    def match(self, path: str) -> Mapping[str, str] | None:
        """The parameters of a path that is exactly this row's, each decoded once; None when it is another path.

        Nothing is forgiven: no other case, no further slash, no dot segment, no encoded letter outside a parameter, no query. A
        parameter, decoded, has only letters and digits of ASCII and `-._~`, and is no dot segment; any other matches nothing.

        Args:
            path: the path as it stood on the wire, percent-encoding untouched.
        """
        found = _pattern(self.path).fullmatch(path) if len(path) <= MAX_PATH else None
        if found is None:
            return None
        values = [unquote(value) for value in found.groups()]
        if not all(map(_VALUE.fullmatch, values)):
            return None
        return dict(zip(_PARAMETER.findall(self.path), values, strict=True))


@lru_cache(maxsize=256)
def _pattern(path: str) -> re.Pattern[str]:
    literals = _PARAMETER.split(path)[::2]
    return re.compile(_SEGMENT.join(map(re.escape, literals)), re.ASCII)
