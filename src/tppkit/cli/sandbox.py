"""`tppkit sandbox`: a bank and a payment gateway to develop against."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import select
import signal
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from tppkit._text import printable
from tppkit.cli.junit import junit
from tppkit.cli.output import (
    DOES_NOT_HOLD,
    HOLDS,
    WRONG_USAGE,
    Raw,
    Result,
    echo,
    fact_lines,
    json_flag,
    json_option,
    parsed,
    print_json,
    read_input,
    reading,
    say,
)
from tppkit.cli.sandbox_lines import curl_line, order_line
from tppkit.cli.trust_options import organization_options, read_profile
from tppkit.errors import FormatError, TppkitError, TransportError
from tppkit.seals import PROFILES

if TYPE_CHECKING:
    from tppkit.protocol.psd2 import Persona

_ADVANCE_S = 600.0  # each due callback attempt may take seconds
_PIECE = 1024  # characters, at most 4 bytes each: what a pipe takes at once


def read_persona(text: str) -> Persona:
    """Return the persona with a name, or the one that a TOML file describes.

    Raises:
        UnreadableFile: the file is unreadable.
        ConfigurationError: `persona.unknown`, `persona.invalid`.
    """
    from tppkit.protocol.psd2 import load_persona

    with reading(text):
        return load_persona(text, dialects=PROFILES)


def _checked_fault(text: str) -> str:
    from tppkit.sandbox.faults import parse_fault
    from tppkit.sandbox.sandbox import INTERFACES

    parse_fault(text, INTERFACES)
    return text


class _FaultText(click.types.StringParamType):
    """A fault, which contains spaces, so several in a variable have `;` between them."""

    envvar_list_splitter = ";"


@click.group()
def sandbox() -> None:
    """Run a bank and a payment gateway to develop against."""


@sandbox.command()
@click.option(
    "--port",
    default=8443,
    show_default=True,
    type=click.IntRange(0, 65529),
    metavar="N",
    help="Port of the PSD2 host; 0 chooses free ports.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--control-host",
    metavar="H",
    help="Address that the control host listens on, for other machines and containers. TPPKIT_CONTROL_TOKEN is required then, and each "
    "control call needs it.",
)
@click.option(
    "--dir",
    "directory",
    default="sandbox",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Folder of the sandbox's files.",
)
@click.option(
    "--public-url",
    metavar="URL",
    help="Address of the PSD2 host for clients: https://HOST, or https://HOST:PORT if a proxy changes ports.",
)
@click.option("--dns", multiple=True, metavar="NAME", help="A further name in the server certificate.")
@click.option(
    "--pki",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder of a test PKI; without this option one is made in --dir.",
)
@click.option(
    "--strict",
    is_flag=True,
    help="Refuse absent, expired and untrusted client certificates in the TLS handshake. A revoked one, or one whose profile or "
    "organisation is not accepted, still gets HTTP 401.",
)
@click.option("--roots-only", is_flag=True, help="Trust roots only: a client must send its intermediates.")
@click.option(
    "--persona",
    default="document",
    show_default=True,
    metavar="NAME|FILE.toml",
    callback=parsed(read_persona),
    help="The bank's manners; see `sandbox persona`.",
)
@click.option(
    "--profile",
    metavar="NAME",
    callback=parsed(partial(read_profile, files=False)),
    help=f"The accepted dialect of seals, instead of the persona's: {', '.join(PROFILES)}.",
)
@click.option(
    "--sign-answers", is_flag=True, help="Sign the answers of the PSD2 host: as the persona has it, else by RFC 9421."
)
@click.option("--pages-tls", is_flag=True, help="Serve the approval pages over HTTPS.")
@click.option(
    "--callback-url",
    metavar="URL",
    help="Destination of the legacy interface's callbacks: https, optionally with a path.",
)
@click.option("--webhook-url", metavar="URL", help="Destination of the webhooks of the gateway's first project: https.")
@click.option(
    "--allow-address",
    multiple=True,
    metavar="NETWORK",
    help="A private network that callbacks and webhooks may reach, for example 10.0.0.0/8.",
)
@click.option(
    "--fault",
    "faults",
    multiple=True,
    type=_FaultText(),
    metavar="FAULT",
    callback=parsed(_checked_fault),
    help="A fault from the start: 'INTERFACE NAME [COUNT [ENDPOINT]]', for example 'psd2 status-500-after 2'.",
)
@click.option("--database", metavar="URL", help="SQLAlchemy address; a SQLite file in --dir by default.")
@click.option("--seed", type=int, metavar="N", help="Generate the same ids in each run.")
@click.option(
    "--ready-file", type=click.Path(path_type=Path), metavar="FILE", help="Written as JSON when every server answers."
)
@organization_options
@json_flag
def up(
    directory: Path, ready_file: Path | None, allow_address: tuple[str, ...], as_json: bool, **settings: Any
) -> None:
    """Serve the sandbox until interrupted. Prints curl lines for a payment and an order, and a line for each request.

    PSD2 (mutual TLS) on the port, pages on the next (an index, approval), the payment gateway on the second after,
    control on the third, the card vault on the fourth, the legacy interface on the fifth (test) and sixth (live);
    all on loopback unless --host, control unless --control-host. TPPKIT_VAULT_KEY (base64 of 32 bytes) encrypts
    stored cards; without it the sandbox makes a key in its folder.
    """
    from tppkit.protocol.control import TOKEN_VARIABLE, parse_control_token

    token = None if settings["control_host"] is None else parse_control_token(os.environ.get(TOKEN_VARIABLE, ""))

    from tppkit.sandbox import SandboxServer, SandboxSettings  # after the token, because it takes a second
    from tppkit.sandbox.request_log import limited

    logging.basicConfig(
        level=logging.INFO, format="%(message)s", handlers=[limited(logging.StreamHandler(_Lines(sys.stderr)))]
    )
    for noisy in ("uvicorn", "uvicorn.error"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    server = SandboxServer(
        SandboxSettings(directory, allow_addresses=allow_address, control_token=token, **settings),
        log=_Lines(sys.stderr if as_json else sys.stdout).line,
    )
    asyncio.run(_serve(server, ready_file, as_json))


@sandbox.command()
@click.argument("name", required=False)
@click.option(
    "--check", "file", metavar="FILE", help="Explain what is wrong in a persona's file; exit 2 if something is."
)
@json_option
def persona(name: str | None, file: str | None) -> Result:
    """List the personas, print the file of NAME to start from, or check one of your own."""
    from tppkit.protocol.psd2 import PERSONAS, check_persona
    from tppkit.protocol.psd2.persona import persona_text
    from tppkit.protocol.psd2.persona_file import MAX_PERSONA_BYTES

    if name is not None and file is not None:
        raise click.UsageError("give either NAME or --check FILE")
    if file is not None:
        with reading(file):
            raw = read_input(file, max_bytes=MAX_PERSONA_BYTES)
        faults = check_persona(raw, dialects=PROFILES)
        found = [{"line": fault.line, "text": fault.text} for fault in faults]
        lines = [str(fault) for fault in faults] or ["no faults"]
        return Result({"faults": found}, lines, WRONG_USAGE if faults else HOLDS)
    if name is None:
        return Result({"personas": list(PERSONAS)}, PERSONAS)
    text = persona_text(name)
    return Result({"name": name, "text": text}, text.splitlines())


class _Lines(io.TextIOBase):
    """Writes to a stream without blocking: if a pipe is full, the text is dropped and the sandbox continues.

    Args:
        stream: stdout or stderr.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write as much as the stream accepts; a pipe that is ready accepts PIPE_BUF bytes."""
        for begin in range(0, len(text), _PIECE):
            if not select.select([], [self._stream], [], 0)[1]:
                break
            self._stream.write(text[begin : begin + _PIECE])
            self._stream.flush()
        return len(text)

    def line(self, text: str) -> None:
        """Write a line at once; `print` writes the line end separately."""
        self.write(f"{text}\n")


async def _serve(server: Any, ready_file: Path | None, as_json: bool) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, server.stop)
    await server.serve(on_ready=lambda: _announce(server, ready_file, as_json))


def _announce(server: Any, ready_file: Path | None, as_json: bool) -> None:
    addresses, profile = asdict(server.addresses), server.sandbox.settings.dialect
    try:
        curl = curl_line(server)
    except TppkitError as e:
        curl = f"no curl line: {e.message}"
    facts = {} if as_json else {name: value for name, value in addresses.items() if value is not None}
    if as_json:
        print_json(addresses)
    facts["persona"] = f"{server.sandbox.settings.bank.name}; choose another bank with --persona NAME"
    facts["seals"] = f"{profile.name} only; choose another dialect with --profile NAME"
    if (signed := server.sandbox.settings.bank).signs_answers:
        facts["answers"] = f"signed in the form {signed.answers} with {server.sandbox.pki}/bank-seal.pem"
    if server.sandbox.settings.has_inspector:
        facts["inspector"] = f"{server.addresses.control_url}/inspector"
    facts["new order"] = order_line(server)
    for line in (*fact_lines(facts.items()), curl):
        echo(line, err=as_json)
    if ready_file is not None:
        server.addresses.write(ready_file)
    say("the sandbox answers; stop it with Ctrl-C")


_control_option = click.option(
    "--control",
    "control_url",
    metavar="URL",
    default="http://localhost:8446",
    show_default=True,
    help="The running sandbox's control host.",
)


@sandbox.command()
@_control_option
@json_option
def reset(control_url: str) -> Result:
    """Put the running sandbox back to its start: same certificates and keys, nothing else. TPPKIT_CONTROL_TOKEN is sent if it is set."""
    return _clock_result(_control_call(control_url, "POST", "/reset"))


@sandbox.group()
def clock() -> None:
    """Show, advance or stop the sandbox's clock. TPPKIT_CONTROL_TOKEN is sent if it is set."""


@clock.command("show")
@_control_option
@json_option
def show_clock(control_url: str) -> Result:
    """Show the time of the sandbox's clock."""
    return _clock_result(_control_call(control_url, "GET", "/clock"))


@clock.command()
@click.argument("duration")
@_control_option
@json_option
def advance(duration: str, control_url: str) -> Result:
    """Advance the sandbox's clock by DURATION: a number with s, m, h or d."""
    units = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
    if duration[-1:] not in units or not duration[:-1].isdecimal() or len(duration) > 10:
        raise click.BadParameter(f"{duration!r} is not a number with s, m, h or d", param_hint="DURATION")
    seconds = int(duration[:-1]) * units[duration[-1]]
    return _clock_result(_control_call(control_url, "POST", "/clock/advance", {"seconds": seconds}))


@clock.command("next")
@_control_option
@json_option
def advance_to_next(control_url: str) -> Result:
    """Advance the sandbox's clock to the next due event or callback attempt, if there is one."""
    return _clock_result(_control_call(control_url, "POST", "/clock/next"))


@clock.command()
@click.option("--off", is_flag=True, help="Let it run again, from the time that it would have had without the stop.")
@_control_option
@json_option
def freeze(off: bool, control_url: str) -> Result:
    """Stop the sandbox's clock. It can still be advanced, and runs again after --off, a reset or a restart."""
    return _clock_result(_control_call(control_url, "POST", "/clock/freeze", {"frozen": not off}))


def _clock_result(answer: Any) -> Result:
    if not isinstance(answer, dict) or "now" not in answer:
        raise TransportError("control.no-answer", "the answer is not from a sandbox's control host")
    return Result(answer, [f"{answer['now']}{' (frozen)' if answer.get('frozen') else ''}"])


def _control_call(control_url: str, method: str, path: str, body: Any = None) -> Any:
    """Call the control host of a running sandbox, with TPPKIT_CONTROL_TOKEN if it is set, and return the JSON of the answer.

    Raises:
        ConfigurationError: `control.token`.
        RequestRefused: the call was refused.
        TransportError: `control.no-answer`.
    """
    import httpx

    from tppkit.protocol.control import TOKEN_VARIABLE, parse_control_token, read_control_answer

    token, url = os.environ.get(TOKEN_VARIABLE), control_url.removesuffix("/") + path
    headers = {"Authorization": f"Bearer {parse_control_token(token)}"} if token else {}
    try:
        answer = httpx.request(method, url, json=body, headers=headers, trust_env=False, timeout=_ADVANCE_S)
        return read_control_answer(answer.status_code, answer.content, call=f"{method} {path}")
    except (httpx.HTTPError, httpx.InvalidURL, FormatError) as e:
        raise TransportError("control.no-answer", f"no sandbox answers at {control_url}: {e}") from e


@sandbox.command()
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "junit"]),
    default="text",
    show_default=True,
    help="Output format.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "notice"]),
    default="error",
    show_default=True,
    help="Exit with 1 if a rule of at least this severity was broken.",
)
@_control_option
@json_flag
def report(form: str, fail_on: str, control_url: str, as_json: bool) -> int:
    """Print what the client under test did wrong: the rules of the documents that its requests broke since the start.

    TPPKIT_CONTROL_TOKEN is sent if it is set.
    """
    from tppkit.sandbox.conformance import Report

    found = Report.from_object(_control_call(control_url, "GET", "/report"))
    if form == "json" or as_json:
        print_json(found.as_object())
    elif form == "junit":
        echo(Raw(junit(found, fail_on=fail_on)))
    else:
        echo(Raw("\n".join(map(printable, str(found).splitlines()))))
    return DOES_NOT_HOLD if found.at_least(fail_on) else HOLDS
