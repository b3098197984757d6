"""The control host of the sandbox as its clients see it: the token and the answers."""

from __future__ import annotations

import re
from typing import Any

from tppkit._encoding import parse_json
from tppkit.errors import ConfigurationError, RequestRefused
from tppkit.protocol.refusals import Refusals, find_error, write_error

TOKEN_VARIABLE = "TPPKIT_CONTROL_TOKEN"  # noqa: S105  # the name of the variable
CONTROL_REFUSALS = Refusals(rows=(), write=write_error, find=find_error)
_MAX_ANSWER_BYTES = 16 * 1024 * 1024
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]{16,512}={0,2}")  # RFC 6750 section 2.1, long enough not to be guessed


def parse_control_token(text: str) -> str:
    """Check a token of the control host; the error does not contain it.

    Raises:
        ConfigurationError: `control.token`.
    """
    if not _TOKEN.fullmatch(text):
        fault = "is not 16 to 512 of A-Z, a-z, 0-9 and . _ ~ + / -" if text else "is missing"
        message = f"the token of the control host {fault}: set {TOKEN_VARIABLE} to the output of openssl rand -hex 32"
        raise ConfigurationError("control.token", message)
    return text


def read_control_answer(status: int, body: bytes, *, call: str) -> Any:
    """Return the JSON of an answer of a control host.

    Args:
        status: its status.
        body: its body.
        call: method and path of the call, for the error.

    Raises:
        RequestRefused: the call was refused.
        FormatError: `json.*`, the answer is not from a control host.
    """
    if status >= 400:
        code, text = CONTROL_REFUSALS.read(body)
        message = f"{call} was refused: {status} {code}: {text}"
        raise RequestRefused(message, status=status, peer_code=code, peer_text=text, request_id=None)
    return parse_json(body, what="the answer", max_bytes=_MAX_ANSWER_BYTES)
