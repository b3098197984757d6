"""`tppkit callback`: sign callbacks, verify them, explain a refused one, receive and replay them, attack one's own receiver."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import click

from tppkit._clock import format_time, utc_now
from tppkit.callbacks import (
    CallbackAddress,
    CallbackKey,
    CallbackKind,
    CallbackReceiver,
    ReceivedCallback,
    VerifiedCallback,
    explain_callback,
    load_callback_key,
    sign_callback,
    verify_callback,
)
from tppkit.cli.callback_attack import print_results, run_attacks
from tppkit.cli.callback_heard import print_heard
from tppkit.cli.callback_kept import KeptCallbacks, load_kept
from tppkit.cli.callback_listen import Listener, base_addresses
from tppkit.cli.callback_listen import listen as serve_callbacks
from tppkit.cli.callback_send import print_reply, read_private_key, send
from tppkit.cli.callback_sending import parse_place, readdress, send_message
from tppkit.cli.certificates import key_password_option
from tppkit.cli.output import (
    DOES_NOT_HOLD,
    HOLDS,
    at_option,
    finding_object,
    json_option,
    present,
    print_facts,
    print_json,
    read_input,
    require_one_stdin,
    say_error,
)  # fmt: skip
from tppkit.cli.verdict import print_verdict, verdict_code, verdict_object
from tppkit.errors import CallbackRejected, Finding, Severity
from tppkit.httpsig.wire import MAX_MESSAGE_BYTES, parse_request

_MAX_KEY_BYTES = 64 * 1024
_SHOWN_BYTES = 4096
_file = click.Path(path_type=Path)

Command = TypeVar("Command", bound=Callable[..., Any])

_request_options = (
    click.argument("request_file", metavar="[REQUEST]", required=False),
    click.option("--method", help="HTTP method; POST by default."),
    click.option("--url", help="The whole address that the request came to."),
    click.option("--request-id", help="The header requestid."),
    click.option("--signature", help="The header signature."),
    click.option("--body", metavar="FILE", help="The exact body; - is standard input."),
    click.option(
        "--address", "addresses", multiple=True, metavar="[KIND=]URL",
        help="An address of the receiver, as the service knows it; --url by default. KIND is access, payment, login or other"
        " (the default: any JSON object). {token} at the end stands for a token.",
    ),
)  # fmt: skip
_public_key_option = click.option(
    "--public-key",
    "keys",
    required=True,
    multiple=True,
    metavar="[NAME=]FILE",
    help="A key of the service; - is standard input.",
)


def _takes_request(command: Command) -> Command:
    for option in reversed(_request_options):
        command = option(command)
    return command


@click.group()
def callback() -> None:
    """Callbacks of the legacy interface."""


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
@click.option("--deterministic", is_flag=True, help="The same request gives the same signature.")
@json_option
def sign(
    key: str, password_file: Path | None, method: str, url: str, body: str | None, request_id: str | None, deterministic: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Print the headers of a callback, one a line. Nothing is judged: it signs what a header can hold."""
    if request_id is not None and not _stands_in_header(request_id):
        raise click.UsageError(
            "--request-id is empty, or has control characters or outer spaces, which no header can hold"
        )
    require_one_stdin(key, body)
    try:
        headers = sign_callback(
            read_private_key(key, password_file), request_id=request_id or str(uuid4()), method=method, url=url, body=_body(body),
            deterministic=deterministic,
        )  # fmt: skip
    except UnicodeEncodeError as e:
        raise click.UsageError("an option holds bytes that are not UTF-8") from e
    if as_json:
        print_json({"headers": [list(header) for header in headers]})
        return
    for name, value in headers:
        click.echo(f"{name}: {value}")


@callback.command()
@_takes_request
@_public_key_option
@at_option
@json_option
def verify(
    request_file: str | None, method: str | None, url: str | None, request_id: str | None, signature: str | None, body: str | None,
    addresses: tuple[str, ...], keys: tuple[str, ...], at: datetime | None, as_json: bool,
) -> int:  # fmt: skip
    """Verify a callback: REQUEST is a file with a raw HTTP/1.1 request, or give its parts as options."""
    require_one_stdin(request_file, body, *map(_key_file, keys))
    received = _received(request_file, method, url, request_id, signature, body)
    receiver = CallbackReceiver(_addresses(addresses, url), keys=[_public_key(text) for text in keys])
    try:
        verified = verify_callback(received, at=present(at), receiver=receiver)
    except CallbackRejected as e:
        if as_json:
            finding = finding_object(Finding(e.code, Severity.ERROR, e.message, e.clause))
            print_json({"verdict": "fails", "code": e.code, "message": e.message, "findings": [finding]})
        else:
            say_error(e)
        return DOES_NOT_HOLD
    proven = _proven(verified)
    if as_json:
        print_json({"verdict": "holds", "code": None, "findings": [], **proven})
    else:
        click.echo("holds")
        print_facts((name, "" if value is None else str(value)) for name, value in proven.items())
    return HOLDS


@callback.command()
@_takes_request
@_public_key_option
@click.option(
    "--other-key", "other_keys", multiple=True, metavar="[NAME=]FILE",
    help="A key that the receiver does not believe, which may explain the signature.",
)  # fmt: skip
@at_option
@json_option
def explain(
    request_file: str | None, method: str | None, url: str | None, request_id: str | None, signature: str | None, body: str | None,
    addresses: tuple[str, ...], keys: tuple[str, ...], other_keys: tuple[str, ...], at: datetime | None, as_json: bool,
) -> int:  # fmt: skip
    """Say why a callback is refused: the bytes that were tried, the rule, the likely cause."""
    require_one_stdin(request_file, body, *map(_key_file, (*keys, *other_keys)))
    received = _received(request_file, method, url, request_id, signature, body)
    receiver = CallbackReceiver(_addresses(addresses, url), keys=[_public_key(text) for text in keys])
    found = explain_callback(
        received, at=present(at), receiver=receiver, other_keys=[_public_key(text) for text in other_keys]
    )
    tried = [
        {
            "url": candidate.url,
            "form": candidate.form,
            "signed": candidate.data[:_SHOWN_BYTES].decode("utf-8", "backslashreplace"),
            "sha256": hashlib.sha256(candidate.data).hexdigest(),
        }
        for candidate in found.candidates
    ]
    counting = {name: "counts" if counts else "does not count at this time" for name, counts in found.keys}
    if as_json:
        print_json(verdict_object(found.findings, tried=tried, keys=counting))
    else:
        facts = [("key", f"{name}: {state}") for name, state in counting.items()]
        facts += [(name, text) for one in tried for name, text in one.items()]
        print_verdict(
            f"{received.method} {received.target}", facts, found.findings, without_mend=("callback.signature",)
        )
    return verdict_code(found.findings)


@callback.command()
@click.argument("url")
@click.option(
    "--key",
    required=True,
    metavar="FILE",
    help="A private key whose public key the receiver trusts: PEM, DER or PKCS#12; - is standard input.",
)
@key_password_option
@click.option("--signed-url", help="The address as the receiver has it configured; URL with https by default.")
@click.option(
    "--body", metavar="FILE", help="A body that the address takes; by default the body of an access that was granted."
)
@json_option
def attack(
    url: str, key: str, password_file: Path | None, signed_url: str | None, body: str | None, as_json: bool
) -> int:
    """Send nasty callbacks to one's own receiver and print pass or fail for each.

    URL is where the receiver listens, http:// on this machine: other hosts are refused. They go to its path, without one to the
    path of --signed-url, and two go beside it. When the good callback is not taken the others are not judged, and the exit code is 1.
    """
    require_one_stdin(key, body)
    private = read_private_key(key, password_file)
    results = run_attacks(url, key=private, signed_url=signed_url, body=None if body is None else _body(body))
    return print_results(results, as_json=as_json)


@callback.command()
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="On 127.0.0.1; 0 for a free one."
)
@click.option("--public-key", "keys", multiple=True, metavar="[NAME=]FILE", help="A key of the service.")
@click.option(
    "--base-url",
    metavar="URL",
    help="Your callback address as the service has it: grants come to URL/, payments to URL/ and a uuid.",
)
@click.option(
    "--address", "addresses", multiple=True, metavar="[KIND=]URL", help="A further address, as for `callback verify`."
)
@click.option(
    "--forward",
    metavar="URL",
    help="Pass verified callbacks on to http:// on this machine; without a path, to their own.",
)
@click.option("--forward-all", is_flag=True, help="Pass refused ones on too.")
@click.option(
    "--folder",
    type=_file,
    default=Path("callbacks"),
    show_default=True,
    help="Where callbacks are kept, the newest 1000.",
)
@json_option
def listen(
    port: int, keys: tuple[str, ...], base_url: str | None, addresses: tuple[str, ...], forward: str | None, forward_all: bool,
    folder: Path, as_json: bool,
) -> int:  # fmt: skip
    """Receive callbacks on this machine: show each one, say why it is refused, keep it and pass it on.

    Answers 200 to what holds, 400 or 404 to what does not, or what the address of --forward answers.
    """
    if forward_all and forward is None:
        raise click.UsageError("--forward-all needs --forward, the address where refused ones go")
    listener = Listener(
        receiver=_listening(keys, base_url, addresses), kept=KeptCallbacks(folder),
        forward=parse_place(forward) if forward else None, forward_all=forward_all, now=utc_now,
    )  # fmt: skip
    serve_callbacks(listener, port=port, show=lambda heard: print_heard(heard, as_json=as_json))
    return HOLDS


@callback.command()
@click.argument("kept", metavar="ID|FILE")
@click.option("--to", "url", required=True, metavar="URL", help="Where to; without a path, to the callback's own.")
@click.option("--remote", is_flag=True, help="URL may be another machine, and https.")
@click.option(
    "--folder", type=_file, default=Path("callbacks"), show_default=True, help="Where `callback listen` keeps them."
)
@json_option
def replay(kept: str, url: str, remote: bool, folder: Path, as_json: bool) -> int:
    """Send a kept callback again, byte for byte, and tell what is answered: by its number, or from a file with a raw request."""
    place = parse_place(url, remote=remote)
    reply = send_message(readdress(load_kept(kept, folder=folder), place=place).to_wire(), place=place)
    return print_reply(reply, as_json=as_json)


callback.add_command(send)


def _listening(keys: tuple[str, ...], base_url: str | None, addresses: tuple[str, ...]) -> CallbackReceiver | None:
    require_one_stdin(*map(_key_file, keys))
    own = [*(base_addresses(base_url) if base_url else ()), *map(_address, addresses)]
    if bool(keys) != bool(own):
        raise click.UsageError("give --public-key and --base-url (or --address), or neither: then nothing is verified")
    return CallbackReceiver(own, keys=[_public_key(text) for text in keys]) if keys else None


def _proven(verified: VerifiedCallback) -> dict[str, Any]:
    return {
        "request_id": verified.request_id,
        "method": verified.method,
        "url": verified.url,
        "address": verified.address.url,
        "key_name": verified.key_name,
        "event": None if verified.event is None else type(verified.event).__name__,
        "body_bytes": len(verified.body),
        "at": format_time(verified.received_at),
    }


def _received(
    request_file: str | None, method: str | None, url: str | None, request_id: str | None, signature: str | None, body: str | None
) -> ReceivedCallback:  # fmt: skip
    if request_file is not None:
        parts = {"--method": method, "--url": url, "--request-id": request_id, "--signature": signature, "--body": body}
        if given := [name for name, value in parts.items() if value is not None]:
            raise click.UsageError(f"REQUEST has all of the request: {', '.join(given)} would be ignored")
        return ReceivedCallback(*parse_request(read_input(request_file, max_bytes=MAX_MESSAGE_BYTES), obs_text=True))
    if url is None:
        raise click.UsageError("give REQUEST, or --url, --request-id and --signature")
    headers = (("requestid", request_id), ("signature", signature))
    # As bytes a terminal's URL is what a wire would carry.
    target = url.encode("utf-8", "surrogateescape").decode("latin-1")
    return ReceivedCallback(
        method or "POST", target, tuple([(name, value) for name, value in headers if value is not None]), _body(body)
    )


def _addresses(texts: tuple[str, ...], url: str | None) -> list[CallbackAddress]:
    if not texts and url is None:
        raise click.UsageError("give --address, the receiver's address as the service knows it")
    return [_address(text) for text in texts or (url or "",)]


def _address(text: str) -> CallbackAddress:
    kind, separator, url = text.partition("=")
    if separator and kind in tuple(CallbackKind):
        return CallbackAddress(url, CallbackKind(kind))
    return CallbackAddress(text, CallbackKind.OTHER)


def _public_key(text: str) -> CallbackKey:
    name, file = _named_key(text)
    return load_callback_key(read_input(file, max_bytes=_MAX_KEY_BYTES), name=name)


def _named_key(text: str) -> tuple[str, str]:
    """Name and file of `[NAME=]FILE`."""
    name, separator, file = text.partition("=")
    return (name, file) if separator and "/" not in name else (Path(text).stem, text)


def _key_file(text: str) -> str:
    return _named_key(text)[1]


def _stands_in_header(text: str) -> bool:
    """Whether a header can have a value (RFC 9110 section 5.5), with nothing that would be trimmed."""
    return bool(text) and text == text.strip() and all(c >= " " and c != "\x7f" for c in text)


def _body(name: str | None) -> bytes:
    return b"" if name is None else read_input(name, max_bytes=MAX_MESSAGE_BYTES)
