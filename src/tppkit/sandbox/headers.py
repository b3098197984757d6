"""The headers of a request, as handlers read them."""

from __future__ import annotations

from tppkit.errors import FormatError
from tppkit.httpsig.message import Message


class Headers:
    """The headers of a request, each read as a single one.

    Args:
        message: the request.
    """

    def __init__(self, message: Message) -> None:
        self._message = message

    def get(self, name: str) -> str | None:
        """The value of a header, None where it is absent.

        Raises:
            FormatError: `header.duplicate`.
        """
        values = self._message.values(name)
        if len(values) > 1:
            raise FormatError("header.duplicate", f"the {name} header appears more than once")
        return values[0] if values else None
