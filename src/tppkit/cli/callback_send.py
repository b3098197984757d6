"""`tppkit callback send`: sign a sample callback, send it to a receiver, and print what it answers."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit
from uuid import uuid4

import click
from cryptography.hazmat.primitives.asymmetric import ec

from tppkit._clock import utc_now
from tppkit.callbacks import CallbackAddress, CallbackKind, ReceivedCallback, RequestIds, sign_callback
from tppkit.certificates import load_certificates
from tppkit.cli.callback_sending import Reply, parse_place, readdress, send_message
from tppkit.cli.certificates import key_password_option, read_key, read_password
from tppkit.cli.output import DOES_NOT_HOLD, HOLDS, json_option, print_facts, print_json, read_input, require_one_stdin
from tppkit.errors import CallbackRejected, ConfigurationError
from tppkit.httpsig.wire import MAX_MESSAGE_BYTES
from tppkit.protocol.legacy import AccessGranted, LoginConfirmed, Transaction
from tppkit.protocol.legacy.models import LegacyModel
from tppkit.protocol.legacy.money import Amount
from tppkit.protocol.legacy.rules import ACCESS_LIFETIME, write_time_stamp

_SHOWN = 4096
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


@click.command()
@click.option("--url", required=True, help="Where the receiver listens: https://, or http:// on this machine.")
@click.option(
    "--key", required=True, metavar="FILE",
    help="A private key whose public key the receiver trusts: PEM, DER or PKCS#12; - is standard input.",
)  # fmt: skip
@key_password_option
@click.option("--kind", required=True, type=click.Choice(tuple(_SAMPLES)), help="What the sample reports.")
@click.option(
    "--scan",
    is_flag=True,
    help="With --kind login: the GET of a scanned code, in place of the POST of a confirmed login.",
)
@click.option("--body", metavar="FILE", help="A body in place of the sample; - is standard input.")
@click.option("--request-id", metavar="ID", help="The requestid; a new UUID by default.")
@click.option("--signed-url", help="The address as the receiver has it configured; URL with https by default.")
@click.option(
    "--ca", metavar="FILE", help="Certificates in PEM that the receiver's must lead to, in place of the system's."
)
@json_option
def send(
    url: str, key: str, password_file: Path | None, kind: str, scan: bool, body: str | None, request_id: str | None,
    signed_url: str | None, ca: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Sign a sample callback, send it to a receiver, and print what it answers.

    The receiver's certificate is verified, and redirects are not followed. URL is used as it is given: for a payment give one that ends
    with / and a uuid, for access one that ends with /.
    """
    if scan and (kind != "login" or body is not None):
        raise click.UsageError("--scan needs --kind login, and no --body")
    require_one_stdin(key, body)
    try:
        RequestIds().require(request_id := request_id or str(uuid4()))
    except CallbackRejected as e:
        raise click.UsageError(e.message) from e
    place = parse_place(url, remote=url.startswith("https://"))
    address = CallbackAddress(
        signed_url or f"https://{urlsplit(url).netloc.lower()}{place.target or '/'}", CallbackKind(kind)
    )
    if address.has_token:
        raise click.UsageError("write the token itself in the place of {token}")
    content = b"" if scan else _SAMPLES[kind](utc_now()).to_wire()
    if body is not None:
        content = read_input(body, max_bytes=MAX_MESSAGE_BYTES)
    method = "GET" if scan else "POST"
    headers = sign_callback(
        read_private_key(key, password_file), request_id=request_id, method=method, url=address.url, body=content
    )
    received = ReceivedCallback(method, address.path, (*headers, ("Content-Type", "application/json")), content)
    reply = send_message(readdress(received, place=place).to_wire(), place=place, context=_trusting(ca) if ca else None)
    return print_reply(reply, as_json=as_json)


def _trusting(ca: str) -> ssl.SSLContext:
    anchors = load_certificates(ca)
    return ssl.create_default_context(cadata="".join(ssl.DER_cert_to_PEM_cert(anchor.der) for anchor in anchors))


def print_reply(reply: Reply, *, as_json: bool) -> int:
    """Print what a receiver answered; the exit code."""
    text = reply.body.decode("utf-8", "replace")
    if as_json:
        print_json({"status": reply.status, "content_type": reply.content_type, "body": text})
    else:
        click.echo(f"answered {reply.status}")
        print_facts([("body", text[:_SHOWN])])
    return HOLDS if 200 <= reply.status < 300 else DOES_NOT_HOLD


def read_private_key(file: str, password_file: Path | None) -> ec.EllipticCurvePrivateKey:
    """Read a key that signs callbacks.

    Raises:
        ConfigurationError: `callback-key.curve`.
    """
    key = read_key(file, read_password(password_file))
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ConfigurationError("callback-key.curve", f"{file} is not a private key on secp256r1")
    return key
