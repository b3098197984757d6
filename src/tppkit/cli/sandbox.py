"""`tppkit sandbox`: the bank to develop against."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from tppkit._text import printable
from tppkit.certificates import OrganizationPolicy
from tppkit.cli.organizations import organization_options
from tppkit.cli.output import json_option, print_json, say


@click.group()
def sandbox() -> None:
    """The bank to develop against."""


@sandbox.command()
@click.option(
    "--port",
    default=8443,
    show_default=True,
    type=click.IntRange(0, 65532),
    metavar="N",
    help="PSD2 port; 0 takes free ports.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--dir",
    "directory",
    default="sandbox",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Where it keeps its files.",
)
@click.option("--pki", type=click.Path(path_type=Path), metavar="DIR", help="A test PKI; made in --dir when absent.")
@click.option("--strict", is_flag=True, help="Refuse bad client certificates in the TLS handshake.")
@click.option("--database", metavar="URL", help="SQLAlchemy address; a SQLite file in --dir by default.")
@click.option("--seed", type=int, metavar="N", help="The same ids again.")
@click.option(
    "--ready-file", type=click.Path(path_type=Path), metavar="FILE", help="Written as JSON once everything answers."
)
@organization_options
@json_option
def up(
    port: int,
    host: str,
    directory: Path,
    pki: Path | None,
    strict: bool,
    database: str | None,
    seed: int | None,
    ready_file: Path | None,
    as_json: bool,
    organizations: OrganizationPolicy,
) -> None:
    """Serve the sandbox until interrupted.

    PSD2 (mutual TLS) on the port, approval pages on the next, control on the third after; all on loopback unless --host.
    """
    from tppkit.sandbox import SandboxServer, SandboxSettings

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    for noisy in ("uvicorn", "uvicorn.error"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    settings = SandboxSettings(
        directory,
        pki=pki,
        host=host,
        port=port,
        strict=strict,
        database=database,
        seed=seed,
        organizations=organizations,
    )
    server = SandboxServer(settings)
    asyncio.run(_serve(server, ready_file, as_json))


async def _serve(server: Any, ready_file: Path | None, as_json: bool) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, server.stop)
    await server.serve(on_ready=lambda: _announce(server.addresses, ready_file, as_json))


def _announce(addresses: Any, ready_file: Path | None, as_json: bool) -> None:
    if ready_file is not None:
        addresses.write(ready_file)
    if as_json:
        print_json(asdict(addresses))
    else:
        for name, value in asdict(addresses).items():
            if value is not None:
                click.echo(f"{name:<14}{value}")
    say("the sandbox answers; stop it with Ctrl-C")


@sandbox.group()
def clock() -> None:
    """The sandbox's time."""


@clock.command()
@click.argument("duration")
@click.option(
    "--control-url", default="http://localhost:8446", show_default=True, help="The running sandbox's control host."
)
@json_option
def advance(duration: str, control_url: str, as_json: bool) -> None:
    """Move the sandbox's time forward by DURATION: a number with s, m, h or d."""
    import httpx

    from tppkit.errors import TransportError

    units = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
    if duration[-1:] not in units or not duration[:-1].isdecimal() or len(duration) > 10:
        raise click.BadParameter(f"{duration!r} is not a number with s, m, h or d", param_hint="DURATION")
    try:
        body = {"seconds": int(duration[:-1]) * units[duration[-1]]}
        answer = httpx.post(f"{control_url}/clock/advance", json=body, trust_env=False)
        result = answer.raise_for_status().json()
        now = result["now"]
    except (httpx.HTTPError, httpx.InvalidURL, json.JSONDecodeError, LookupError, TypeError) as e:
        raise TransportError("transport.failed", f"the sandbox's control host did not answer: {e}") from e
    if as_json:
        print_json(result)
    else:
        click.echo(printable(str(now)))
