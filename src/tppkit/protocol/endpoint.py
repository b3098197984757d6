"""One row an endpoint: the client builds requests from it, the sandbox routes by it, documents list it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote

_PARAMETER = re.compile(r"\{([a-z_]+)\}")


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
