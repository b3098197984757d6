"""What interfaces with card data have in common: the key is the user name, and errors do not repeat what was sent."""

from __future__ import annotations

import re
from typing import Any

from pydantic import SecretStr

from tppkit.client.calls import Call, Calls, ServerAnswer
from tppkit.client.credentials import BasicCredentials
from tppkit.protocol.endpoint import Interface

_SENT_DIGITS = re.compile(rb'"([0-9]{3,})"')


class CardCalls(Calls):
    """Builds the requests of an interface with card data; sends nothing.

    Args:
        interface: its rows and errors.
        base_url: `https://host[:port]`, with a path prefix where a gateway needs one.
        api_key: the key of the project.

    Raises:
        ConfigurationError: `client.base-url`, `credentials.malformed`.
    """

    def __init__(self, interface: Interface, base_url: str, *, api_key: SecretStr | str) -> None:
        self._key = BasicCredentials(api_key)
        super().__init__(interface, base_url, credentials=self._key)

    def peer_error(self, call: Call[Any], answer: ServerAnswer) -> tuple[str | None, str | None]:
        """Code and text of an error answer, with asterisks for the key and for texts of digits that the request has."""
        code, text = super().peer_error(call, answer)
        sent = {digits.decode() for digits in _SENT_DIGITS.findall(call.message.body)}
        longest_first = sorted(sent, key=len, reverse=True)  # a security code can be part of a card number
        return self._masked(code, longest_first), self._masked(text, longest_first)

    def _masked(self, text: str | None, sent: list[str]) -> str | None:
        if text is None:
            return None
        joined = re.sub("[ -]", "", text)
        for digits in sent:
            if digits in joined:
                text = re.sub("[ -]?".join(digits), "***", text)
        return self._key.masked(text)
