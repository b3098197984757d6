"""`tppkit callback listen` and `replay`: receive callbacks on this machine, keep them, forward them and send them again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from tppkit._clock import utc_now
from tppkit._files import PRIVATE, write_new
from tppkit._text import printable
from tppkit.callbacks import CallbackAddress, CallbackKind, CallbackReceiver, explain_callback
from tppkit.cli.callback_options import public_key_option, read_address, read_callback, read_receiver, split_key
from tppkit.cli.callback_send import answer_result, answer_to, require_target
from tppkit.cli.output import (
    HOLDS,
    Raw,
    Result,
    colored,
    echo,
    finding_line,
    json_flag,
    json_option,
    require_one_stdin,
    say,
    say_error,
    verdict_object,
)
from tppkit.errors import ConfigurationError, TppkitError, TransportError
from tppkit.message import Message
from tppkit.protocol.wire import MAX_BODY_BYTES
from tppkit.web import Answer, AsgiSource
from tppkit.web.sources import Receive, Scope, Send, read_message, require_length, send_answer

MAX_KEPT = 1000
_LENGTHS = frozenset({"content-length", "transfer-encoding"})
# Headers of one connection: RFC 9110 section 7.6.1.
_OF_CONNECTION = _LENGTHS | {
    "connection", "expect", "host", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
    "upgrade",
}  # fmt: skip
_dir_option = click.option(
    "--dir", "directory", type=click.Path(path_type=Path), default="callbacks", show_default=True, metavar="DIR",
    help=f"Folder of the requests that `callback listen` keeps, the newest {MAX_KEPT}.",
)  # fmt: skip


@click.command()
@click.option(
    "--port", default=8765, show_default=True, type=click.IntRange(0, 65535), metavar="N", help="0 chooses a free port."
)
@public_key_option
@click.option(
    "--base-url", metavar="URL",
    help="Your callback address as the service has it: grants arrive at URL/, payments at URL/ followed by a uuid.",
)  # fmt: skip
@click.option(
    "--address", "addresses", multiple=True, metavar="[KIND=]URL", help="A further address, as for `callback verify`."
)
@click.option(
    "--forward", metavar="URL",
    help="Forward verified callbacks to http:// on this machine; without a path, to the callback's own path.",
)  # fmt: skip
@click.option("--forward-all", is_flag=True, help="Forward refused callbacks too.")
@_dir_option
@json_flag
def listen(
    port: int, keys: tuple[str, ...], base_url: str | None, addresses: tuple[str, ...], forward: str | None, forward_all: bool,
    directory: Path, as_json: bool,
) -> int:  # fmt: skip
    """Receive callbacks on this machine: print each one and the cause of a refusal, keep it and forward it.

    The answer is 200 to callbacks that hold, 400 or 404 to others, or the answer of the --forward address.
    """
    if forward_all and forward is None:
        raise click.UsageError("--forward-all needs --forward")
    named = [split_key(text) for text in keys]
    require_one_stdin(*(file for _, file in named))
    if not (own := [*(base_addresses(base_url) if base_url else ()), *map(read_address, addresses)]):
        raise click.UsageError("give --base-url or --address, the receiver's address as the service has it")
    receiver = read_receiver(named, own)
    from tppkit.sandbox.uvicorn_server import QuietServer, make_config, serve_until_stopped
    from tppkit.sandbox.uvicorn_server import listen as bind

    def show(result: Result) -> None:
        for line in [Raw(json.dumps(result.value))] if as_json else result.lines:
            echo(line)

    send_on = partial(resend, forward, require_target(forward, "http")) if forward else None
    app = CallbackListener(receiver, directory, show, forward=send_on, forward_all=forward_all)
    bound = bind("127.0.0.1", port)
    ready = f"listening on http://127.0.0.1:{bound.getsockname()[1]}; stop it with Ctrl-C"
    servers = ((QuietServer(make_config(app)), bound),)
    asyncio.run(serve_until_stopped(servers, on_ready=lambda: say(ready)))
    say("stopped")
    return HOLDS


@click.command()
@click.argument("kept", metavar="N|FILE")
@click.option("--to", "url", required=True, metavar="URL", help="Where to; without a path, to the callback's own path.")
@click.option("--remote", is_flag=True, help="Allow https://, also to other machines.")
@_dir_option
@json_option
def replay(kept: str, url: str, remote: bool, directory: Path) -> Result:
    """Send a kept callback again, unchanged, and print the answer. Name it by its number, or by a file with a raw request."""
    target = require_target(url, *(("http", "https") if remote else ("http",)))
    call = read_callback(str(directory / f"{kept}.http") if _is_number(kept) else kept)
    return answer_result(resend(url, target, call))


class CallbackListener:
    """An ASGI application that keeps, judges, forwards and answers each callback.

    Args:
        receiver: addresses and keys.
        folder: where requests are kept; created if absent. They may contain personal data, so only their owner can read them.
        show: called with each result before it is answered.
        forward: sends callbacks on, or None.
        forward_all: also forward refused callbacks.

    Raises:
        ConfigurationError: `file.unwritable`.

    Example:
        app = CallbackListener(receiver, Path("callbacks"), print)
    """

    def __init__(
        self, receiver: CallbackReceiver, folder: Path, show: Callable[[Result], None], *,
        forward: Callable[[Message], Answer] | None = None, forward_all: bool = False,
    ) -> None:  # fmt: skip
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as e:
            raise ConfigurationError("file.unwritable", f"{folder} cannot be made: {e.strerror}") from e
        self._receiver, self._folder, self._show = receiver, folder, show
        self._forward, self._forward_all = forward, forward_all

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            require_length(AsgiSource(scope), max_bytes=MAX_BODY_BYTES)
            received = await read_message(scope, receive, max_body_bytes=MAX_BODY_BYTES)
            result, answer = await asyncio.to_thread(self._handle, self._keep(received), received)
            self._show(result)
        except TppkitError as e:  # it was not kept
            say_error(e)
            status = 413 if e.code == "message.too-large" else 500 if isinstance(e, ConfigurationError) else 400
            answer = Answer(status, (), b"")
        await send_answer(send, answer)

    def _handle(self, number: int, received: Message) -> tuple[Result, Answer]:
        found = explain_callback(received, at=utc_now(), receiver=self._receiver)
        verified, code = found.verified, found.rejection.code if found.rejection else None
        answer, forwarded = Answer(200 if verified else 404 if code == "callback.address" else 400, (), b""), None
        below = [f"  {finding_line(finding)}" for finding in found.findings]
        if self._forward is not None and (verified is not None or self._forward_all):
            try:
                answer = self._forward(received)
                forwarded = answer.status
            except TransportError as e:
                answer = Answer(502, (), b"")
                below.append(f"  {e.message} [{e.code}]")
        name = verified.key_name if verified else None
        event = type(verified.event).__name__ if verified and verified.event else None
        state = colored("verified" if verified else "refused", holds=bool(verified))
        proven = printable(f" by {name}: {event or 'no event'}") if verified else ""
        request = printable(f"{received.method} {received.target[:200]}")
        value = {
            "id": str(number), "method": received.method, "target": received.target,
            **verdict_object(code, found.findings, key_name=name, event=event),
            "forwarded": forwarded, "answered": answer.status,
        }  # fmt: skip
        return Result(value, [Raw(f"{number}  {request}  {answer.status}  {state}{proven}"), *below]), answer

    def _keep(self, received: Message) -> int:
        headers = [(name, value) for name, value in received.headers if name not in _LENGTHS]
        headers.append(("content-length", str(len(received.body))))  # it may have come in chunks
        kept = sorted(int(path.stem) for path in self._folder.glob("*.http") if _is_number(path.stem))
        number = kept[-1] + 1 if kept else 1
        write_new(self._folder / f"{number}.http", received._replace(headers=tuple(headers)).to_wire(), mode=PRIVATE)
        for old in kept[: max(0, len(kept) + 1 - MAX_KEPT)]:
            (self._folder / f"{old}.http").unlink(missing_ok=True)
        return number


def base_addresses(url: str) -> list[CallbackAddress]:
    """Return the addresses of grants and payments under a base address.

    Raises:
        ConfigurationError: `callback.address-unusable`.

    Source: PSD2 document, part B section 6.
    """
    base = url.removesuffix("/")
    return [CallbackAddress(f"{base}/", CallbackKind.ACCESS), CallbackAddress(base + "/{token}", CallbackKind.PAYMENT)]


def resend(url: str, target: str, call: Message) -> Answer:
    """Send a received callback to the host of a URL, with another target unless it is empty.

    Raises:
        TransportError: `transport.failed`, `transport.timeout`.
    """
    headers = tuple((name, value) for name, value in call.headers if name.lower() not in _OF_CONNECTION)
    return answer_to(url, call._replace(target=target or call.target, headers=headers))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()
