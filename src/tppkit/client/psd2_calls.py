"""The requests of the PSD2 interface, built and sealed but not sent. Source: PSD2 document, part A."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import TypeVar
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import httpx

from tppkit._clock import utc_now
from tppkit._encoding import shown
from tppkit.client.calls import Call
from tppkit.client.identity import Identity
from tppkit.client.sealing import Sealing
from tppkit.errors import ConfigurationError, FormatError
from tppkit.httpsig.components import parse_origin
from tppkit.httpsig.message import Header, Message
from tppkit.protocol.endpoint import Auth, Endpoint
from tppkit.protocol.psd2 import PaymentDetails, PaymentInitiated, PaymentInitiation, PaymentProduct, PaymentStatus
from tppkit.protocol.psd2.endpoints import CANCEL_PAYMENT, INITIATE_PAYMENT, PAYMENT_DETAILS, PAYMENT_STATUS
from tppkit.protocol.psd2.rules import parse_redirect_uri

Request = TypeVar("Request")
Result = TypeVar("Result")


class Psd2Calls:
    """Builds and seals the requests of the PSD2 interface; sends nothing.

    Args:
        base_url: `https://host[:port]`, with a path prefix where a gateway needs one.
        identity: its seal signs what must be signed.
        new_request_id: makes X-Request-IDs.
        now: the present time, aware.

    Raises:
        ConfigurationError: `client.base-url`, `seal.other-origin`.
    """

    def __init__(
        self,
        base_url: str,
        *,
        identity: Identity,
        new_request_id: Callable[[], UUID] = uuid4,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self.origin, self._prefix = _split_base_url(base_url)
        origin = parse_origin(self.origin)
        self._sealing = Sealing(identity, origin=origin, now=now)
        self._new_request_id = new_request_id

    def initiate_payment(
        self,
        payment: PaymentInitiation,
        *,
        product: PaymentProduct,
        request_id: UUID | None,
        psu_ip_address: str | None,
        redirect_uri: str | None,
    ) -> Call[PaymentInitiated]:
        """POST /payments/{payment-product}, to be sealed."""
        redirect_uri = None if redirect_uri is None else parse_redirect_uri(redirect_uri)
        further = [("PSU-IP-Address", psu_ip_address), ("TPP-Redirect-URI", redirect_uri)]
        headers = [(name, value) for name, value in further if value is not None]
        return self._call(INITIATE_PAYMENT, payment, request_id, headers, product=product.value)

    def payment_status(self, payment_id: str, *, product: PaymentProduct) -> Call[PaymentStatus]:
        """GET /payments/{payment-product}/{paymentId}/status."""
        return self._call(PAYMENT_STATUS, None, None, (), product=product.value, payment_id=payment_id)

    def payment_details(self, payment_id: str, *, product: PaymentProduct) -> Call[PaymentDetails]:
        """GET /payments/{payment-product}/{paymentId}."""
        return self._call(PAYMENT_DETAILS, None, None, (), product=product.value, payment_id=payment_id)

    def cancel_payment(self, payment_id: str, *, product: PaymentProduct) -> Call[PaymentStatus]:
        """DELETE /payments/{payment-product}/{paymentId}."""
        return self._call(CANCEL_PAYMENT, None, None, (), product=product.value, payment_id=payment_id)

    def _call(
        self,
        row: Endpoint[Request, Result],
        content: Request,
        request_id: UUID | None,
        further: Iterable[Header],
        **place: str,
    ) -> Call[Result]:
        body = row.request.write(content)
        rid = str(request_id or self._new_request_id())
        headers = [("X-Request-ID", rid), ("Accept", "application/json"), *map(_check_plain, further)]
        if body:
            # Its length too, which the library would add behind the seal, and some dialects cover where it is there.
            headers += [("Content-Type", row.request.media_type or ""), ("Content-Length", str(len(body)))]
        message = Message(row.method, self._prefix + row.target(**place), tuple(headers), body)
        return Call(row, message, rid)

    def seal(self, call: Call[Result]) -> Call[Result]:
        """The call as it is sent: sealed where its row says so.

        The same call again has the same seal, byte for byte; see `Sealing`.

        Raises:
            LocalProtocolError: `seal.absent`, `seal.request-id-reused`, `seal.request-id-in-use`.
            ConfigurationError, TransportError: of the signer.
        """
        if call.endpoint.auth is not Auth.SEAL:
            return call
        return _with_seal(call, self._sealing.seal(call.message, give_id=lambda _: call.request_id).headers)

    async def seal_async(self, call: Call[Result]) -> Call[Result]:
        """The same, awaiting the signer."""
        if call.endpoint.auth is not Auth.SEAL:
            return call
        return _with_seal(
            call, (await self._sealing.seal_async(call.message, give_id=lambda _: call.request_id)).headers
        )


def _with_seal(call: Call[Result], headers: tuple[Header, ...]) -> Call[Result]:
    return replace(call, message=call.message.with_headers(*headers))


def _split_base_url(base_url: str) -> tuple[str, str]:
    """Origin and path prefix, when the HTTP library will send the prefix as it stands."""
    try:
        parts = urlsplit(base_url)
        origin, prefix = f"https://{parts.netloc.removesuffix(':')}", parts.path.rstrip("/")
        parse_origin(origin)
        usable = (
            parts.scheme == "https"
            and bool(parts.hostname)
            and parts.port != 0
            and base_url.isascii()
            and base_url.isprintable()
            and not any(mark in base_url for mark in "@?# ")
            and httpx.URL(f"{origin}{prefix}/").raw_path == f"{prefix}/".encode("ascii")
        )
    except (ValueError, FormatError, httpx.InvalidURL):
        usable = False
    if not usable:
        raise ConfigurationError("client.base-url", "the base address is not https://host[:port][/prefix]")
    return origin, prefix


def _check_plain(header: Header) -> Header:
    name, value = header
    if not (value.isascii() and value.isprintable()):
        raise FormatError("header.control-character", f"the value for {name} is not printable ASCII: {shown(value)}")
    return header
