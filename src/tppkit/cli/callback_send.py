"""`tppkit callback send` and `attack`: signed samples, and invalid callbacks that a receiver must refuse."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from datetime import datetime
from threading import Thread
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import click
import httpx
from cryptography.hazmat.primitives.asymmetric import ec

from tppkit._clock import utc_now
from tppkit._encoding import shown
from tppkit._networks import is_loopback
from tppkit.callbacks import CallbackAddress, CallbackKind, CallbackRejected, RequestIds, sign_callback
from tppkit.callbacks.attacks import ATTACKS, Target
from tppkit.certificates import EidasCertificate, load_certificates
from tppkit.cli.callback_options import request_id_option, signing_options
from tppkit.cli.output import (
    DOES_NOT_HOLD,
    HOLDS,
    Raw,
    Result,
    colored,
    fact_lines,
    json_option,
    verdict_object,
)
from tppkit.client import NoCertificate, make_client
from tppkit.client.answers import TransportErrors, is_unsent
from tppkit.errors import ConfigurationError, TransportError
from tppkit.message import Message
from tppkit.protocol.legacy import AccessGranted, LoginConfirmed, Transaction
from tppkit.protocol.legacy.models import LegacyModel
from tppkit.protocol.legacy.money import Amount
from tppkit.protocol.legacy.rules import ACCESS_LIFETIME, write_time_stamp
from tppkit.web import Answer

TIMEOUT_S = 10.0
_MAX_ANSWER_BYTES = 64 * 1024
_SHOWN = 4096  # bytes of an answer
_SAMPLES: Mapping[str, Callable[[datetime], LegacyModel]] = MappingProxyType(
    {
        "access": lambda at: AccessGranted.until(uuid4().hex, at + ACCESS_LIFETIME),
        "payment": lambda at: Transaction(
            id=uuid4().hex, ver=1, time_stamp=write_time_stamp(at), tlc="posted", acc="LT121000011101001000",
            amounts=(Amount.parse("EUR-12.50"),), name="Bookshop", msg="Order 4711",
        ),
        "login": lambda at: LoginConfirmed(id=7, name="Jonas Jonaitis"),
    }
)  # fmt: skip
_signed_url_option = click.option(
    "--signed-url", help="The address as the receiver has it configured; URL with https by default."
)


@click.command()
@click.option("--url", required=True, help="Where the receiver listens: https://, or http:// on this machine.")
@signing_options("A body instead of the sample")
@click.option("--kind", required=True, type=click.Choice(tuple(_SAMPLES)), help="The event of the sample.")
@click.option("--scan", is_flag=True, help="With --kind login: send the GET for a scanned code.")
@request_id_option
@_signed_url_option
@click.option("--ca", metavar="FILE", help="Authorities in PEM to trust for https instead of the system's.")
@json_option
def send(
    url: str, private_key: ec.EllipticCurvePrivateKey, kind: str, scan: bool, body: bytes | None, request_id: str | None,
    signed_url: str | None, ca: str | None,
) -> Result:  # fmt: skip
    """Sign a sample callback, send it to a receiver, and print the answer.

    The receiver's certificate is verified. Redirects are not followed. Give the exact URL: for a payment it ends with / and a uuid,
    for access with /.
    """
    if scan and (kind != "login" or body is not None):
        raise click.UsageError("--scan needs --kind login, and no --body")
    try:
        RequestIds().require(request_id := request_id or str(uuid4()))
    except CallbackRejected as e:
        raise click.UsageError(e.message) from e
    target = require_target(url, "http", "https")
    address = CallbackAddress(signed_url or _https_url(url, target), CallbackKind(kind))
    if address.has_token:
        raise click.UsageError("replace {token} by a token")
    content = b"" if scan else _SAMPLES[kind](utc_now()).to_wire() if body is None else body
    method = "GET" if scan else "POST"
    headers = sign_callback(private_key, request_id=request_id, method=method, url=address.url, body=content)
    call = Message(method, target or address.path, (*headers, ("Content-Type", "application/json")), content)
    anchors = load_certificates(ca) if ca else None
    return answer_result(answer_to(url, call, anchors=anchors))


@click.command()
@click.argument("url")
@signing_options("A body that the address accepts; that of a granted access by default")
@_signed_url_option
@json_option
def attack(url: str, private_key: ec.EllipticCurvePrivateKey, signed_url: str | None, body: bytes | None) -> Result:
    """Send invalid callbacks to your own receiver and print pass or fail for each.

    URL is where the receiver listens, http:// on this machine. The callbacks go to its path, or to the path of --signed-url if URL
    has none; two go to other paths. If the valid callback is refused, the others are not sent and the exit code is 1.
    """
    path = require_target(url, "http")
    target = Target(
        key=private_key,
        stranger=ec.generate_private_key(ec.SECP256R1()),
        address=CallbackAddress(_https_url(url, path) if signed_url is None else signed_url, CallbackKind.OTHER),
        body=_SAMPLES["access"](utc_now()).to_wire() if body is None else body,
        name=uuid4().hex[:12],
        path=path,
    )
    rows: list[dict[str, Any]] = []
    for one in ATTACKS:
        status, passed = None, None
        if not rows or rows[0]["passed"]:  # the first is the valid callback
            status = [_status_of(url, call, is_first=not rows) for call in one.make(target)][-1]
            passed = status is not None and one.answer.fits(status)
        row = {"name": one.name, "tests": one.tests, "expected": one.answer.value}
        rows.append({**row, "status": status, "passed": passed})
    states = [row["passed"] for row in rows]
    code = "attack.not-judged" if None in states else "attack.failed" if False in states else None
    lines = [*map(_row_line, rows), f"{states.count(True)} of {len(rows)} passed"]
    advice = "the valid callback was refused, so refusals show nothing: check --key, --signed-url and --body"
    message = advice if None in states else ""
    return Result(verdict_object(code, (), attacks=rows), lines, DOES_NOT_HOLD if code else HOLDS, message)


def answer_to(url: str, call: Message, *, anchors: Sequence[EidasCertificate] | None = None) -> Answer:
    """Send a callback to the host of a URL and return the answer: its type, and at most 64 KiB of its body.

    Target, method, body and the callback's headers stay unchanged. All of it takes at most 10 seconds.

    Args:
        url: checked by `require_target`.
        call: the callback.
        anchors: authorities to trust for https; None: the system's.

    Raises:
        TransportError: `transport.failed`, `transport.timeout`.
    """
    answer = Future[Answer]()
    # A thread of its own, because no limit of the HTTP library ends an answer that trickles; a daemon, so that it keeps no process.
    # By threads, because asyncio discards an answer that arrives before the end of a refused body.
    Thread(target=_send_call, args=(url, call, anchors, answer), daemon=True).start()
    with TransportErrors():
        return answer.result(TIMEOUT_S)


def _send_call(url: str, call: Message, anchors: Sequence[EidasCertificate] | None, answer: Future[Answer]) -> None:
    fields, body = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in call.headers], b""
    try:
        with make_client(NoCertificate(server_anchors=anchors), timeout_s=TIMEOUT_S) as http:
            request = http.build_request(
                call.method, url, headers=[(b"Connection", b"close"), *fields], content=call.body,
                extensions={"target": call.target.encode("latin-1")},
            )  # fmt: skip
            request.method = call.method  # httpx writes it in upper case
            with closing(http.send(request, stream=True)) as response:
                for chunk in response.iter_raw():
                    body += chunk
                    if len(body) > _MAX_ANSWER_BYTES:
                        break
        kept = ((name, response.headers.get(name)) for name in ("content-type", "content-encoding"))
        headers = tuple((name, value) for name, value in kept if value is not None)
        answer.set_result(Answer(response.status_code, headers, body[:_MAX_ANSWER_BYTES]))
    except Exception as e:  # noqa: BLE001  # raised where the answer is waited for
        answer.set_exception(e)


def answer_result(answer: Answer) -> Result:
    """Return an answer; only 2xx holds."""
    text = answer.body[:_SHOWN].decode("utf-8", "replace")
    value = {"status": answer.status, "content_type": dict(answer.headers).get("content-type", ""), "body": text}
    lines = (f"answered {answer.status}", *fact_lines([("body", text)]))
    return Result(value, lines, HOLDS if 200 <= answer.status < 300 else DOES_NOT_HOLD)


def _row_line(row: dict[str, Any]) -> Raw:
    passed = row["passed"]
    state = "----" if passed is None else colored("pass" if passed else "FAIL", holds=passed)
    answer = "not judged" if passed is None else row["status"] or "no answer"
    return Raw(f"{state}  {row['name']:<22} {answer:<10} {row['tests']}")


def _status_of(url: str, call: Message, *, is_first: bool) -> int | None:
    try:
        return answer_to(url, call).status
    except TransportError as e:
        if is_first and is_unsent(e):
            raise TransportError("attack.unreachable", f"nothing listens on {urlsplit(url).netloc}") from e
        return None  # also if an attack has stopped the receiver


def require_target(url: str, *schemes: str) -> str:
    """Return path and query of a destination, empty if it has neither; one with http must be on this machine.

    Args:
        url: for example `http://127.0.0.1:8000`.
        schemes: the accepted ones, http or https.

    Raises:
        ConfigurationError: `callback.place`.
    """
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in schemes and parts.port != 0 and parts.username is None and not parts.fragment
        _ = httpx.URL(url).host  # also rejects names such as xn--a
    except (ValueError, httpx.InvalidURL):
        is_usable = False
    if not (is_usable and url.isascii() and url.isprintable() and " " not in url) or not (
        parts.hostname and (parts.scheme == "https" or is_loopback(parts.hostname))
    ):
        where = " or ".join({"http": "http:// on this machine"}.get(scheme, f"{scheme}://") for scheme in schemes)
        raise ConfigurationError("callback.place", f"{shown(url)} is not {where}")
    query = f"?{parts.query}" if parts.query else ""
    return "" if parts.path in ("", "/") and not query else (parts.path or "/") + query


def _https_url(url: str, target: str) -> str:
    return f"https://{urlsplit(url).netloc.lower()}{target or '/'}"
