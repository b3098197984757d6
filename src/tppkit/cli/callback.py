"""`tppkit callback`: sign, verify, explain, send and receive callbacks, and test a receiver."""

from __future__ import annotations

import hashlib
from datetime import datetime
from uuid import uuid4

import click
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

from tppkit._clock import format_time
from tppkit.callbacks import CallbackReceiver, explain_callback, sign_callback, verify_callback
from tppkit.cli.callback_listen import listen, replay
from tppkit.cli.callback_options import request_id_option, request_options, signing_options
from tppkit.cli.callback_send import attack, send
from tppkit.cli.output import Result, at_option, headers_result, json_option, present, verdict
from tppkit.message import Message

_SHOWN_BYTES = 4096


@click.group()
def callback() -> None:
    """Sign, verify, explain, send and receive callbacks of the legacy interface, and test a receiver."""


for command in (attack, listen, replay, send):
    callback.add_command(command)


@callback.command()
@signing_options("The exact body")
@click.option("--method", default="POST", show_default=True, help="HTTP method.")
@click.option("--url", required=True, help="The whole address, with https://.")
@request_id_option
@json_option
def sign(
    private_key: EllipticCurvePrivateKey, method: str, url: str, body: bytes | None, request_id: str | None
) -> Result:
    """Print the headers of a callback, one a line. The options are signed as they are, without checks."""
    if request_id is not None and not _is_header_value(request_id):
        raise click.UsageError("--request-id must not be empty, have outer spaces or contain control characters")
    try:
        headers = sign_callback(
            private_key, request_id=request_id or str(uuid4()), method=method, url=url, body=body or b""
        )
    except UnicodeEncodeError as e:
        raise click.UsageError("an option contains bytes that are not UTF-8") from e
    return headers_result(headers)


@callback.command()
@request_options
@at_option
@json_option
def verify(received: Message, receiver: CallbackReceiver, at: datetime | None) -> Result:
    """Verify a callback: REQUEST is a file with a raw HTTP/1.1 request, or give its parts as options."""
    verified = verify_callback(received, at=present(at), receiver=receiver)
    proven = {
        "request_id": verified.request_id,
        "method": verified.method,
        "url": verified.url,
        "address": verified.address.url,
        "key_name": verified.key_name,
        "event": None if verified.event is None else type(verified.event).__name__,
        "body_bytes": len(verified.body),
        "at": format_time(verified.received_at),
    }
    return verdict(f"{received.method} {received.target}", (), proven=proven)


@callback.command()
@request_options
@at_option
@json_option
def explain(received: Message, receiver: CallbackReceiver, at: datetime | None) -> Result:
    """Print why a callback is refused: the bytes that were compared, the rule, the likely cause."""
    found = explain_callback(received, at=present(at), receiver=receiver)
    tried = [
        {
            "url": candidate.url,
            "form": candidate.form,
            "signed": candidate.data[:_SHOWN_BYTES].decode("utf-8", "backslashreplace"),
            "sha256": hashlib.sha256(candidate.data).hexdigest(),
        }
        for candidate in found.candidates
    ]
    keys = {name: "counts" if counts else "does not count at this time" for name, counts in found.keys}
    return verdict(
        f"{received.method} {received.target}",
        found.findings,
        proven={"tried": tried, "keys": keys},
        facts={"keys": keys, **{f"tried {number}": one for number, one in enumerate(tried, 1)}},
        without_advice=("callback.signature",),
    )


def _is_header_value(text: str) -> bool:
    """Whether a header can carry a value unchanged (RFC 9110 section 5.5)."""
    return bool(text) and text == text.strip() and all(c >= " " and c != "\x7f" for c in text)
