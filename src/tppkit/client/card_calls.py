"""The common part of interfaces with card data: the key is the user name, and errors do not repeat card data."""

from __future__ import annotations

import json
import re
from typing import Any, ClassVar, NoReturn

from pydantic import SecretStr

from tppkit._locals import without_locals
from tppkit.client.calls import Call, Calls, ServerAnswer
from tppkit.client.credentials import BasicCredentials
from tppkit.message import Message
from tppkit.protocol.endpoint import Interface

# Numbers, codes and dates; the proof of 3-D Secure, and tokens of cards.
_SENT = re.compile(rb'("[0-9]{3,}")|"(?:cavv|setup_token|vault_token)":("(?:[^"\\]|\\.)+")')
_SEPARATOR = r"(?:[\W_]|%20|%2[Dd])?"


class CardMessage(Message):
    """A request with card data, which is not pickled."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a request with card data is not pickled or copied")


class CardCalls(Calls):
    """Builds the requests of an interface with card data; sends nothing.

    Args:
        base_url: `https://host[:port]`, with a path prefix where a proxy needs one.
        api_key: the key of the project.

    Raises:
        ConfigurationError: `client.base-url`, `credentials.malformed`.
    """

    interface: ClassVar[Interface]

    @without_locals
    def __init__(self, base_url: str, *, api_key: SecretStr | str) -> None:
        self._key = BasicCredentials(api_key)
        super().__init__(self.interface, base_url, credentials=self._key)

    def peer_error(self, call: Call[Any], answer: ServerAnswer) -> tuple[str | None, str | None]:
        """Return code and text of an error answer, with asterisks for the key and for the card data of the request."""
        code, text = super().peer_error(call, answer)
        sent: set[str] = {json.loads(digits or other) for digits, other in _SENT.findall(call.message.body)}
        longest_first = sorted(sent, key=len, reverse=True)  # a security code can be part of a card number
        secrets = re.compile("|".join(map(_pattern, longest_first)) or "(?!)", re.IGNORECASE)
        return self._masked(code, secrets), self._masked(text, secrets)

    def _message(self, *args: Any) -> Message:
        return CardMessage(*super()._message(*args))

    def _masked(self, text: str | None, secrets: re.Pattern[str]) -> str | None:
        return text and secrets.sub("***", self._key.masked(text))


def _pattern(secret: str) -> str:
    """Return the pattern of a secret, which does not match inside longer numbers such as amounts."""
    if not re.fullmatch("[0-9]+", secret):
        return re.escape(secret)
    if len(secret) >= 12:
        return _SEPARATOR.join(secret)
    return f"(?<![0-9]){(_SEPARATOR if len(secret) > 4 else '').join(secret)}(?![0-9])"
