"""How `callback listen` shows what became of each request."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import click

from tppkit._text import printable
from tppkit.callbacks import ReceivedCallback, VerifiedCallback
from tppkit.cli.callback_sending import Reply
from tppkit.cli.output import finding_object
from tppkit.errors import Finding, TransportError


class Heard(NamedTuple):
    """What became of one request.

    Attributes:
        number: in the folder.
        received: the request.
        verified: what was proven, or None.
        findings: why it is refused and what may have caused it; empty where it holds, or where nothing was verified.
        forwarded: what the local address answered, None where it was not asked.
        failure: why the local address did not answer, or None.
        answer: what the sender gets.
    """

    number: str
    received: ReceivedCallback
    verified: VerifiedCallback | None
    findings: tuple[Finding, ...]
    forwarded: Reply | None
    failure: TransportError | None
    answer: Reply


def print_heard(heard: Heard, *, as_json: bool) -> None:
    """One line a callback, and more below when it is refused; or one JSON object a line."""
    click.echo(json.dumps(_object(heard)) if as_json else "\n".join(_lines(heard)))


def _lines(heard: Heard) -> list[str]:
    first = f"{heard.number}  {heard.received.method} {printable(heard.received.target[:200])}  {heard.answer.status}"
    if heard.verified is not None:
        event = heard.verified.event
        what = type(event).__name__ if event else "no event"
        lines = [f"{first}  verified by {heard.verified.key_name}: {what}"]
    elif heard.findings:
        lines = [f"{first}  refused"]
    else:
        lines = [f"{first}  not verified: no --public-key"]
    lines += [f"  {finding.severity}: {printable(finding.message)} [{finding.code}]" for finding in heard.findings]
    if heard.failure is not None:
        lines.append(f"  {printable(heard.failure.message)} [{heard.failure.code}]")
    return lines


def _object(heard: Heard) -> dict[str, Any]:
    return {
        "id": heard.number,
        "method": heard.received.method,
        "target": heard.received.target,
        "verdict": "holds" if heard.verified else "fails" if heard.findings else None,
        "code": heard.findings[0].code if heard.findings else None,
        "findings": [finding_object(finding) for finding in heard.findings],
        "key_name": heard.verified.key_name if heard.verified else None,
        "event": type(heard.verified.event).__name__ if heard.verified and heard.verified.event else None,
        "forwarded": heard.forwarded.status if heard.forwarded else None,
        "answered": heard.answer.status,
    }
