"""`tppkit callback`: sign and verify callbacks, explain refusals, receive, send and replay callbacks, test a receiver."""

from __future__ import annotations

import hashlib
from datetime import datetime
from pathlib import Path
from uuid import uuid4

import click

from tppkit._clock import format_time
from tppkit.callbacks import (
    CallbackReceiver,
    ReceivedCallback,
    explain_callback,
    sign_callback,
    verify_callback,
)
from tppkit.cli.callback_listen import listen, replay
from tppkit.cli.callback_options import read_body, read_public_keys, request_options
from tppkit.cli.callback_send import attack, read_private_key, send
from tppkit.cli.certificates import key_password_option
from tppkit.cli.output import HOLDS, at_option, json_option, present, print_json, require_one_stdin
from tppkit.cli.verdict import print_verdict, verdict_code, verdict_object

_SHOWN_BYTES = 4096


@click.group()
def callback() -> None:
    """Callbacks of the legacy interface."""


for command in (attack, listen, replay, send):
    callback.add_command(command)


@callback.command()
@click.option(
    "--key", required=True, metavar="FILE",
    help="The private key, on secp256r1: PEM, DER or PKCS#12; - is standard input.",
)  # fmt: skip
@key_password_option
@click.option("--method", default="POST", show_default=True, help="HTTP method.")
@click.option("--url", required=True, help="The whole address, with https://.")
@click.option("--body", metavar="FILE", help="The exact body; - is standard input.")
@click.option("--request-id", metavar="ID", help="The requestid; a new UUID by default.")
@click.option("--deterministic", is_flag=True, help="Sign the same request with the same signature each time.")
@json_option
def sign(
    key: str, password_file: Path | None, method: str, url: str, body: str | None, request_id: str | None, deterministic: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Print the headers of a callback, one a line. The options are signed as they are, without checks."""
    if request_id is not None and not _is_header_value(request_id):
        raise click.UsageError("--request-id must not be empty, have outer spaces or contain control characters")
    require_one_stdin(key, body)
    try:
        headers = sign_callback(
            read_private_key(key, password_file), request_id=request_id or str(uuid4()), method=method, url=url,
            body=read_body(body), deterministic=deterministic,
        )  # fmt: skip
    except UnicodeEncodeError as e:
        raise click.UsageError("an option contains bytes that are not UTF-8") from e
    if as_json:
        print_json({"headers": [list(header) for header in headers]})
        return
    for name, value in headers:
        click.echo(f"{name}: {value}")


@callback.command()
@request_options
@at_option
@json_option
def verify(received: ReceivedCallback, receiver: CallbackReceiver, at: datetime | None, as_json: bool) -> int:
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
    if as_json:
        print_json(verdict_object((), **proven))
    else:
        facts = [(name, "" if value is None else str(value)) for name, value in proven.items()]
        print_verdict(f"{received.method} {received.target}", facts, ())
    return HOLDS


@callback.command()
@request_options
@click.option(
    "--other-key", "other_keys", multiple=True, metavar="[NAME=]FILE",
    help="A key that the receiver does not trust, which may explain the signature.",
)  # fmt: skip
@at_option
@json_option
def explain(
    received: ReceivedCallback, receiver: CallbackReceiver, other_keys: tuple[str, ...], at: datetime | None, as_json: bool
) -> int:  # fmt: skip
    """Print why a callback is refused: the bytes that were compared, the rule, the likely cause."""
    found = explain_callback(received, at=present(at), receiver=receiver, other_keys=read_public_keys(other_keys))
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
    if as_json:
        print_json(verdict_object(found.findings, tried=tried, keys=keys))
    else:
        facts = [("key", f"{name}: {state}") for name, state in keys.items()]
        facts += [fact for one in tried for fact in one.items()]
        print_verdict(
            f"{received.method} {received.target}", facts, found.findings, without_advice=("callback.signature",)
        )
    return verdict_code(found.findings)


def _is_header_value(text: str) -> bool:
    """Whether a header can carry a value unchanged (RFC 9110 section 5.5)."""
    return bool(text) and text == text.strip() and all(c >= " " and c != "\x7f" for c in text)
