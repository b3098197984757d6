"""Calls as data: what to send and how to read the answer. The two drivers differ only in the waiting between."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tppkit._encoding import shown
from tppkit.errors import RemoteProtocolError, RequestRefused
from tppkit.httpsig.message import Message
from tppkit.protocol.endpoint import Endpoint
from tppkit.protocol.psd2 import PSD2

MAX_ANSWER_BYTES = 4 * 1024 * 1024

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """An answer as it came.

    Attributes:
        status: HTTP status.
        headers: by lower-case name.
        body: raw bytes.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Call(Generic[Result]):
    """One request, ready to send.

    Attributes:
        endpoint: its row.
        message: exactly what is sent (the HTTP library adds Host and lengths), once it is sealed.
        request_id: its X-Request-ID.
    """

    endpoint: Endpoint[Any, Result]
    message: Message
    request_id: str

    def read(self, answer: ServerAnswer) -> Result:
        """The result, when the answer is what the interface promises.

        Raises:
            RequestRefused: the service answered with an error status.
            RemoteProtocolError: `answer.redirect`, `answer.status`, `answer.request-id`.
            FormatError: `json.*`, `model.invalid`.
        """
        if 300 <= answer.status < 400:
            raise RemoteProtocolError("answer.redirect", f"{self._name} was answered with a redirect ({answer.status})")
        if answer.status >= 400:
            raise self._refused(answer)
        if answer.status != self.endpoint.success:
            raise RemoteProtocolError(
                "answer.status", f"{self._name} was answered {answer.status}, not {self.endpoint.success}"
            )
        echoed = answer.headers.get("x-request-id")
        if echoed is None or echoed.lower() != self.request_id.lower():
            raise RemoteProtocolError(
                "answer.request-id", f"{self._name} {self.request_id} was answered for {shown(echoed or 'none')}"
            )
        return self.endpoint.answer.read(answer.body, tolerant=True)

    @property
    def _name(self) -> str:
        return f"{self.endpoint.method} {self.endpoint.path}"

    def _refused(self, answer: ServerAnswer) -> RequestRefused:
        code, text = PSD2.refusals.read(answer.body)
        return RequestRefused(
            f"{self._name} was refused: {answer.status} {code or 'without a code'}{': ' + shown(text, limit=200) if text else ''}",
            status=answer.status, peer_code=code, peer_text=text, request_id=self.request_id,
        )  # fmt: skip
