"""`tppkit callback send` and `attack`: signed samples, and invalid callbacks that a receiver must refuse."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import click
from cryptography.hazmat.primitives.asymmetric import ec

from tppkit._clock import utc_now
from tppkit.callbacks import CallbackAddress, CallbackKind, ReceivedCallback, RequestIds, sign_callback
from tppkit.callbacks.attacks import ATTACKS, Attack, Target
from tppkit.certificates import load_certificates
from tppkit.cli.callback_options import read_body
from tppkit.cli.callback_transport import TIMEOUT_S, Place, parse_place, print_reply, readdress, send_message
from tppkit.cli.certificates import key_password_option, read_key, read_password
from tppkit.cli.output import DOES_NOT_HOLD, HOLDS, json_option, print_json, require_one_stdin, say
from tppkit.cli.verdict import colored
from tppkit.errors import CallbackRejected, ConfigurationError, TransportError
from tppkit.protocol.legacy import AccessGranted, LoginConfirmed, Transaction
from tppkit.protocol.legacy.models import LegacyModel
from tppkit.protocol.legacy.money import Amount
from tppkit.protocol.legacy.rules import ACCESS_LIFETIME, write_time_stamp

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
_key_option = click.option(
    "--key", required=True, metavar="FILE",
    help="A private key whose public key the receiver trusts: PEM, DER or PKCS#12; - is standard input.",
)  # fmt: skip
_signed_url_option = click.option(
    "--signed-url", help="The address as the receiver has it configured; URL with https by default."
)


@click.command()
@click.option("--url", required=True, help="Where the receiver listens: https://, or http:// on this machine.")
@_key_option
@key_password_option
@click.option("--kind", required=True, type=click.Choice(tuple(_SAMPLES)), help="The event of the sample.")
@click.option("--scan", is_flag=True, help="With --kind login: send the GET for a scanned code.")
@click.option("--body", metavar="FILE", help="A body instead of the sample; - is standard input.")
@click.option("--request-id", metavar="ID", help="The requestid; a new UUID by default.")
@_signed_url_option
@click.option("--ca", metavar="FILE", help="Authorities in PEM to trust for https instead of the system's.")
@json_option
def send(
    url: str, key: str, password_file: Path | None, kind: str, scan: bool, body: str | None, request_id: str | None,
    signed_url: str | None, ca: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Sign a sample callback, send it to a receiver, and print the answer.

    The receiver's certificate is verified. Redirects are not followed. Give the exact URL: for a payment it ends with / and a uuid,
    for access with /.
    """
    if scan and (kind != "login" or body is not None):
        raise click.UsageError("--scan needs --kind login, and no --body")
    require_one_stdin(key, body)
    try:
        RequestIds().require(request_id := request_id or str(uuid4()))
    except CallbackRejected as e:
        raise click.UsageError(e.message) from e
    place = parse_place(url, remote=url.startswith("https://"))
    address = CallbackAddress(signed_url or _https_url(url, place), CallbackKind(kind))
    if address.has_token:
        raise click.UsageError("replace {token} by a token")
    content = b"" if scan else _SAMPLES[kind](utc_now()).to_wire() if body is None else read_body(body)
    method = "GET" if scan else "POST"
    headers = sign_callback(
        read_private_key(key, password_file), request_id=request_id, method=method, url=address.url, body=content
    )
    received = ReceivedCallback(method, address.path, (*headers, ("Content-Type", "application/json")), content)
    reply = send_message(readdress(received, place=place).to_wire(), place=place, context=_trusting(ca) if ca else None)
    return print_reply(reply, as_json=as_json)


@click.command()
@click.argument("url")
@_key_option
@key_password_option
@_signed_url_option
@click.option(
    "--body", metavar="FILE", help="A body that the address accepts; the body of a granted access by default."
)
@json_option
def attack(
    url: str, key: str, password_file: Path | None, signed_url: str | None, body: str | None, as_json: bool
) -> int:
    """Send invalid callbacks to your own receiver and print pass or fail for each.

    URL is where the receiver listens, http:// on this machine. The callbacks go to its path, or to the path of --signed-url if URL
    has none; two go to other paths. If the valid callback is refused, the others are not sent and the exit code is 1.
    """
    require_one_stdin(key, body)
    private, place = read_private_key(key, password_file), parse_place(url)
    target = Target(
        key=private,
        stranger=ec.generate_private_key(ec.SECP256R1()),
        address=CallbackAddress(_https_url(url, place) if signed_url is None else signed_url, CallbackKind.OTHER),
        body=_SAMPLES["access"](utc_now()).to_wire() if body is None else read_body(body),
        name=uuid4().hex[:12],
        path=place.target,
    )
    try:
        socket.create_connection((place.host, place.port), timeout=TIMEOUT_S).close()
    except OSError as e:
        raise TransportError("attack.unreachable", f"nothing listens on {place.authority}: {e.strerror}") from e
    rows = []
    for one, status, passed in _run_attacks(target, place._replace(target="")):  # each attack has its own path
        state = "----" if passed is None else colored("pass" if passed else "FAIL", holds=passed)
        answer = "not judged" if passed is None else status or "no answer"
        if not as_json:
            click.echo(f"{state}  {one.name:<22} {answer:<10} {one.tests}")
        rows.append(
            {"name": one.name, "tests": one.tests, "expected": one.answer.value, "status": status, "passed": passed}
        )
    return _print_summary(rows, as_json=as_json)


def _run_attacks(target: Target, place: Place) -> Iterator[tuple[Attack, int | None, bool | None]]:
    """Send each attack and yield its answer's status and whether it passed; no attack is sent after a refused valid callback."""
    valid_is_taken = True
    for number, one in enumerate(ATTACKS):
        if not valid_is_taken:
            yield one, None, None
            continue
        status = [_send(call, place) for call in one.make(target)][-1]
        passed = status is not None and one.answer.fits(status)
        yield one, status, passed
        valid_is_taken = passed or number > 0


def _send(call: ReceivedCallback, place: Place) -> int | None:
    host = next((value for name, value in call.headers if name == "Host"), None)
    try:
        return send_message(readdress(call, place=place, host=host).to_wire(), place=place).status
    except TransportError:
        return None


def _print_summary(rows: list[dict[str, Any]], *, as_json: bool) -> int:
    states = [row["passed"] for row in rows]
    code = "attack.not-judged" if None in states else "attack.failed" if False in states else None
    if as_json:
        print_json({"verdict": "fails" if code else "holds", "code": code, "attacks": rows})
    else:
        click.echo(f"{states.count(True)} of {len(rows)} passed")
        if None in states:
            say("the valid callback was refused, so refusals show nothing: check --key, --signed-url and --body")
    return DOES_NOT_HOLD if code else HOLDS


def _https_url(url: str, place: Place) -> str:
    return f"https://{urlsplit(url).netloc.lower()}{place.target or '/'}"


def _trusting(ca: str) -> ssl.SSLContext:
    anchors = load_certificates(ca)
    return ssl.create_default_context(cadata="".join(ssl.DER_cert_to_PEM_cert(anchor.der) for anchor in anchors))


def read_private_key(file: str, password_file: Path | None) -> ec.EllipticCurvePrivateKey:
    """Read a key that signs callbacks.

    Raises:
        ConfigurationError: `callback-key.curve`.
    """
    key = read_key(file, read_password(password_file))
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ConfigurationError("callback-key.curve", f"{file} is not a private key on secp256r1")
    return key
