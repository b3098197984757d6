"""Options of several commands of `tppkit callback`: a callback to sign, or a received one with addresses and keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import click
from cryptography.hazmat.primitives.asymmetric import ec

from tppkit.callbacks import CallbackAddress, CallbackKind, CallbackReceiver, load_callback_key
from tppkit.cli.certificates import key_password_option, read_key, read_password
from tppkit.cli.output import read_input, require_one_stdin
from tppkit.errors import ConfigurationError
from tppkit.httpsig.wire import MAX_MESSAGE_BYTES, parse_request
from tppkit.message import Message

_MAX_KEY_BYTES = 64 * 1024
_HEADERS = {"request_id": "requestid", "signature": "signature"}  # by the option's parameter


public_key_option = click.option(
    "--public-key", "keys", required=True, multiple=True, metavar="[NAME=]FILE", help="A key of the service; - is standard input.",
)  # fmt: skip


def request_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a received callback, as the parameters `received` and `receiver`."""

    @click.argument("request_file", metavar="[REQUEST]", required=False)
    @click.option("--method", help="HTTP method; POST by default.")
    @click.option("--url", help="The whole address that received the request.")
    @click.option("--request-id", help="The header requestid.")
    @click.option("--signature", help="The header signature.")
    @click.option("--body", metavar="FILE", help="The exact body; - is standard input.")
    @click.option(
        "--address",
        "addresses",
        multiple=True,
        metavar="[KIND=]URL",
        help="An address of the receiver as the service has it; --url by default. KIND is access, payment, login or other"
        " (the default: any JSON object). {token} at the end matches any token.",
    )
    @public_key_option
    @wraps(command)
    def with_request(
        request_file: str | None, url: str | None, body: str | None, addresses: tuple[str, ...], keys: tuple[str, ...],
        **options: Any,
    ) -> Any:  # fmt: skip
        method, *headers = (options.pop(name) for name in ("method", *_HEADERS))
        named = [split_key(text) for text in keys]
        require_one_stdin(request_file, body, *(file for _, file in named))
        if request_file is not None:
            if any(part is not None for part in (method, url, body, *headers)):
                raise click.UsageError("REQUEST contains the whole request: remove the options with its parts")
            received = read_callback(request_file)
        elif url is None:
            raise click.UsageError("give REQUEST, or --url, --request-id and --signature")
        else:
            received = Message(
                method or "POST",
                url.encode("utf-8", "surrogateescape").decode("latin-1"),  # the bytes that a request would have
                tuple(
                    (name, value) for name, value in zip(_HEADERS.values(), headers, strict=True) if value is not None
                ),
                _read_body(body),
            )
        if not (addresses := addresses or ((url,) if url else ())):
            raise click.UsageError("give --address, the receiver's address as the service has it")
        receiver = read_receiver(named, [read_address(text) for text in addresses])
        return command(received=received, receiver=receiver, **options)

    return with_request  # fmt: skip


request_id_option = click.option("--request-id", metavar="ID", help="The requestid; a new UUID by default.")


def signing_options(body_help: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the options of a callback to sign, as the parameters `private_key` and `body`; without --body it is None."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        @click.option(
            "--key",
            required=True,
            metavar="FILE",
            help="The private key of the sender, on secp256r1: PEM, DER or PKCS#12; - is standard input.",
        )
        @key_password_option
        @click.option("--body", "body_file", metavar="FILE", help=f"{body_help}; - is standard input.")
        @wraps(command)
        def with_key(*args: Any, key: str, password_file: Path | None, body_file: str | None, **options: Any) -> Any:
            require_one_stdin(key, body_file)
            private_key = _read_private_key(key, password_file)
            return command(*args, private_key=private_key, body=body_file and _read_body(body_file), **options)

        return with_key

    return add  # fmt: skip


def _read_private_key(file: str, password_file: Path | None) -> ec.EllipticCurvePrivateKey:
    """Read a key that signs callbacks.

    Raises:
        ConfigurationError: `callback-key.curve`.
    """
    key = read_key(file, read_password(password_file))
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ConfigurationError(
            "callback-key.curve", f"{file} is not a private key on secp256r1 (P-256): give such a key"
        )
    return key


def _read_body(file: str | None) -> bytes:
    return b"" if file is None else read_input(file, max_bytes=MAX_MESSAGE_BYTES)


def read_callback(file: str) -> Message:
    """Read a raw HTTP/1.1 request.

    Raises:
        FormatError: `file.unreadable`, `file.too-large`, `message.*`.
    """
    return Message(*parse_request(read_input(file, max_bytes=MAX_MESSAGE_BYTES), obs_text=True))


def read_receiver(keys: Iterable[tuple[str, str]], addresses: Sequence[CallbackAddress]) -> CallbackReceiver:
    """Make the receiver of a command.

    Args:
        keys: name and file of each key, from `split_key`.
        addresses: as the service has them.

    Raises:
        FormatError: `file.unreadable`, `file.too-large`.
        ConfigurationError: `callback-key.*`, `callback.*`.
    """
    loaded = [load_callback_key(read_input(file, max_bytes=_MAX_KEY_BYTES), name=name) for name, file in keys]
    return CallbackReceiver(addresses, keys=loaded)


def read_address(text: str) -> CallbackAddress:
    """Parse `[KIND=]URL`.

    Raises:
        ConfigurationError: `callback.address-unusable`.
    """
    kind, separator, url = text.partition("=")
    if separator and kind in tuple(CallbackKind):
        return CallbackAddress(url, CallbackKind(kind))
    return CallbackAddress(text, CallbackKind.OTHER)


def split_key(text: str) -> tuple[str, str]:
    """Split `[NAME=]FILE` into name and file; the name of a file without one is its own without suffix."""
    name, separator, file = text.partition("=")
    return (name, file) if separator and "/" not in name else (Path(text).stem, text)
