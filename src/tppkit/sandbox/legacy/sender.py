"""Callbacks and login GETs: each attempt is signed again with the key of the host.

Source: PSD2 document, part B sections 5 and 6.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from uuid import uuid4

from cryptography.hazmat.primitives.asymmetric import ec
from sqlalchemy import Connection

from tppkit._addresses import parse_signed_address
from tppkit.callbacks import sign_callback
from tppkit.errors import ConfigurationError, FormatError, TransportError
from tppkit.protocol.legacy import LoginRequest
from tppkit.protocol.wire import require_media_type
from tppkit.sandbox.deliveries import Schedule
from tppkit.sandbox.delivery_tables import Attempt, Delivery, add_delivery
from tppkit.sandbox.faults import FAULTS, Faults
from tppkit.sandbox.legacy.settings import LegacyHost
from tppkit.sandbox.legacy.tables import callback_url
from tppkit.sandbox.outgoing_http import OutgoingHttp, Receivers

_MINUTE, _HOUR = 60.0, 3600.0
# Assumption delivery-schedule.
SCHEDULE = Schedule((10.0, _MINUTE, 5 * _MINUTE, 15 * _MINUTE, _HOUR), timeout_s=4.0, last_s=24 * _HOUR)
_JSON = "application/json"
_LOGGER = logging.getLogger("tppkit.sandbox.legacy")


def sender_name(host: str) -> str:
    """Return the name of the sender of a host, `test` or `live`."""
    return f"legacy-{host}"


def callback(
    db: Connection, host: str, path: str, body: bytes, *, at: datetime, stream: str | None = None, ver: int = 0
) -> None:
    """Add a callback to the provider, in the transaction of the change that it reports.

    Args:
        db: the transaction.
        host: `test` or `live`.
        path: the path after the callback address and a slash: empty, or the payment's uuid.
        body: the body.
        at: the time of the change, aware UTC.
        stream: the stream whose order is kept, or None.
        ver: its place in the stream.
    """
    url = callback_url(db)
    if url is None:
        _LOGGER.warning("  a callback is not sent: no address is set (--callback-url, POST /legacy/provider)")
        return
    add_delivery(
        db, sender=sender_name(host), address=f"{url}/{path}", body=body, at=at, stream=stream and f"legacy {stream}", ver=ver
    )  # fmt: skip


def parse_callback_url(text: str, receivers: Receivers) -> str:
    """Parse a provider's callback address: https, at one of `receivers`, without a query, and without a final slash.

    Raises:
        ConfigurationError: `legacy.callback-url`.
    """
    url = text.removesuffix("/")
    receivers.require(url, what="the callback address", code="legacy.callback-url")
    try:
        parse_signed_address(f"{url}/", what="the callback address")
    except FormatError as e:
        raise ConfigurationError("legacy.callback-url", e.message) from e
    if "?" in url:
        raise ConfigurationError("legacy.callback-url", "the callback address has a query")
    return url


class LegacySender:
    """Sends the callbacks of one host. See `Sender`.

    Args:
        hosts: the test and the live host, by their names.
        name: the name of the host.
        http: makes the HTTP client; called at the first request.
        faults: the requested faults; those of bodies and signatures are applied here.

    Attributes:
        schedule: when deliveries are attempted.
        faults: the names of those that can apply.
    """

    schedule, faults = SCHEDULE, tuple(FAULTS)

    def __init__(
        self, hosts: Mapping[str, LegacyHost], name: str, http: Callable[[], OutgoingHttp], faults: Faults
    ) -> None:
        self._key = hosts[name].signing_key
        self._other_key = next(host.signing_key for host in hosts.values() if host.name != name)
        self._http = http
        self._take = partial(faults.take, sender=sender_name(name))

    async def send(self, delivery: Delivery, timeout_s: float) -> Attempt:
        """Sign and send a delivery once."""
        url, body = delivery.address, delivery.body
        if delivery.ver > 1 and self._take("stale-ver"):
            body = _with_stale_version(body)
        headers = self._signed("POST", url, body)
        if self._take("moved-boundary"):
            url, body = url[:-1], url[-1:].encode() + body
        if self._take("truncated-body"):
            body = body[:-1]
        try:
            answer = await self._http().request(
                "POST", url, headers=(*headers, ("Content-Type", _JSON)), body=body, timeout_s=timeout_s
            )
        except (TransportError, FormatError) as e:
            return Attempt(False, f"{e.message} ({e.code})")
        return Attempt(200 <= answer.status < 300, f"status {answer.status}")

    async def ask(self, url: str) -> LoginRequest:
        """Send the signed GET of a login code, and return the receiver's request.

        Raises:
            TransportError: `outgoing.*`; `login.answer`, the status is not 200.
            FormatError: `message.content-type`, `json.*`, `model.invalid`, `qr.address-*`.
        """
        answer = await self._http().request(
            "GET", url, headers=(*self._signed("GET", url, b""), ("Accept", _JSON)), timeout_s=SCHEDULE.timeout_s
        )
        if answer.status != 200:
            raise TransportError("login.answer", f"the receiver answers {answer.status}")
        require_media_type(answer.content_type, _JSON)
        return LoginRequest.from_wire(answer.body, unknown_fields=True)

    def _signed(self, method: str, url: str, body: bytes) -> tuple[tuple[str, str], ...]:
        """Return the headers, with a unique requestid."""
        key = self._key
        if self._take("wrong-key"):
            key = ec.generate_private_key(ec.SECP256R1())
        elif self._take("swapped-keys"):
            key = self._other_key
        request_id, (name, signature) = sign_callback(key, request_id=uuid4().hex, method=method, url=url, body=body)
        if self._take("other-der"):
            signature = f"3081{signature[2:]}"  # the length in its long form
        return request_id, (name, signature)


def _with_stale_version(body: bytes) -> bytes:
    return json.dumps(json.loads(body) | {"ver": 0}, separators=(",", ":"), ensure_ascii=False).encode()
