"""Calls as data: what to send and how to read the answer. The two drivers differ only in the waiting between."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from tppkit._encoding import shown
from tppkit.errors import OutcomeUnknown, RemoteProtocolError, RequestRefused
from tppkit.httpsig.message import Message
from tppkit.protocol.endpoint import Endpoint
from tppkit.protocol.psd2.errors import parse_refusal

MAX_ANSWER_BYTES = 4 * 1024 * 1024

# How a caller finds out what a request did whose answer is not known.
_TO_FIND_OUT: Mapping[str, str] = {
    "POST": (
        "; it may have been carried out: to find out, send it again within the hour with the same X-Request-ID {id}, which gives the"
        " answer again and does nothing twice"
    ),
    "DELETE": "; it may have been carried out: to find out, ask for the payment's status",
}

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """An answer as it came.

    Attributes:
        status: HTTP status.
        body: raw bytes.
    """

    status: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Call(Generic[Result]):
    """One request, ready to send.

    Attributes:
        endpoint: its row.
        message: exactly what is sent (the HTTP library adds Host and lengths), once it is sealed.
        request_id: its X-Request-ID.
        read_body: reads the body of a success.
    """

    endpoint: Endpoint
    message: Message
    request_id: str
    read_body: Callable[[bytes], Result]

    def check_echo(self, status: int, headers: Mapping[str, str]) -> None:
        """Check that an answer belongs to this request, whatever its status, before anything else in it is used.

        See assumption refusal-echo. A server, or a proxy before it, that sends one answer too many shifts all later answers of the
        connection, so close the connection after a failure.

        Args:
            status: HTTP status.
            headers: by lower-case name.

        Raises:
            OutcomeUnknown: `answer.request-id`.
        """
        echoed = headers.get("x-request-id")
        if echoed is not None and echoed.lower() == self.request_id.lower():
            return
        found = "without X-Request-ID" if echoed is None else f"for the X-Request-ID {shown(echoed)}"
        advice = _TO_FIND_OUT.get(self.endpoint.method, "; ask again").format(id=self.request_id)
        raise OutcomeUnknown(
            "answer.request-id",
            f"{self._name} {self.request_id} was answered {status} {found}, so it is not known what became of the request{advice}",
            status=status,
            request_id=self.request_id,
        )

    def read(self, answer: ServerAnswer) -> Result:
        """Return the result of an answer that `check_echo` has accepted.

        Raises:
            RequestRefused: the service answered with an error status.
            RemoteProtocolError: `answer.redirect`, `answer.status`.
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
        return self.read_body(answer.body)

    @property
    def _name(self) -> str:
        return f"{self.endpoint.method} {self.endpoint.path}"

    def _refused(self, answer: ServerAnswer) -> RequestRefused:
        code, text = parse_refusal(answer.status, answer.body)
        return RequestRefused(
            f"{self._name} was refused: {answer.status} {code or 'without a code'}{': ' + shown(text, limit=200) if text else ''}",
            status=answer.status, peer_code=code, peer_text=text, request_id=self.request_id,
        )  # fmt: skip
