"""The PSD2 interface from the provider's side: one method an endpoint row, for threads and for asyncio.

    with Psd2Client("https://psd2.bank.example", identity=identity) as client:
        initiated = client.initiate_payment(payment)
        final = client.wait_for_payment(initiated.payment_id)

Requests keep their connection alive beyond the polling interval, never follow a redirect, and ignore proxy settings of the
environment. Source: PSD2 document, part A.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType, TracebackType
from typing import Any, Self
from uuid import UUID, uuid4

import httpx

from tppkit.client.calls import MAX_ANSWER_BYTES, Call, ServerAnswer
from tppkit.client.connections import DEFAULT_TIMEOUT_S, make_async_client, make_client
from tppkit.client.deadline import deadline
from tppkit.client.http_libraries import FAILURES, TIMEOUTS
from tppkit.client.identity import Identity
from tppkit.client.psd2_calls import Model, Psd2Calls
from tppkit.errors import LocalProtocolError, OutcomeUnknown, RemoteProtocolError, TransportError
from tppkit.protocol.psd2 import (
    PAYMENT,
    PaymentDetails,
    PaymentInitiated,
    PaymentInitiation,
    PaymentProduct,
    PaymentStatus,
    TransactionStatus,
)

POLL_INTERVAL_S = 3.0  # the document suggests 2 to 5 seconds
WAIT_S = 600.0

_OTHER_NAME = re.compile(r"certificate is not valid for ('[^']{1,255}')")

# Whatever a client that is passed in does with its own requests.
_AS_IT_IS: Mapping[str, Any] = MappingProxyType({"stream": True, "follow_redirects": False, "auth": None})


class _Client:
    """What both drivers share."""

    def __init__(self, base_url: str, identity: Identity, timeout_s: float, new_request_id: Callable[[], UUID]) -> None:
        self._calls = Psd2Calls(base_url, identity=identity, new_request_id=new_request_id)
        self._timeout_s = timeout_s

    def _request(self, client: httpx.Client | httpx.AsyncClient, call: Call[Any]) -> httpx.Request:
        message = call.message
        request = client.build_request(
            message.method,
            self._calls.origin + message.target,
            headers=list(message.headers),
            content=message.body or None,
        )
        if request.url.raw_path != message.target.encode("ascii"):
            raise LocalProtocolError("client.target", "the HTTP library would send another target than the sealed one")
        return request


class Psd2Client(_Client):
    """A bank's PSD2 interface, for threads.

    Args:
        base_url: `https://host[:port][/prefix]`.
        identity: QWAC and seal.
        timeout_s: for a whole call, in seconds, however slowly the answer comes.
        new_request_id: makes X-Request-IDs.
        http: a client to use instead of an own one, as `make_client` gives it; it is not closed. Its own `auth` and its
            following of redirects are left aside.
    """

    def __init__(
        self, base_url: str, *, identity: Identity, timeout_s: float = DEFAULT_TIMEOUT_S,
        new_request_id: Callable[[], UUID] = uuid4, http: httpx.Client | None = None,
    ) -> None:  # fmt: skip
        super().__init__(base_url, identity, timeout_s, new_request_id)
        self._own = http is None
        self._http = make_client(identity, timeout_s=timeout_s) if http is None else http

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        if self._own:
            self._http.close()

    def initiate_payment(
        self, payment: PaymentInitiation, *, product: PaymentProduct = PaymentProduct.SEPA, request_id: UUID | None = None,
        psu_ip_address: str | None = None, redirect_uri: str | None = None,
    ) -> PaymentInitiated:  # fmt: skip
        """Initiate a payment.

        Args:
            payment: what to pay.
            product: over which rail.
            request_id: the X-Request-ID; give the same one again to repeat the same request after a failure within the hour.
            psu_ip_address: the payer's address, when present.
            redirect_uri: where the payer's browser returns after approval, https.

        Returns:
            Payment id, state RCVD, and the approval link for the payer's browser (`links.sca_redirect.href`).

        Raises:
            RequestRefused: the bank's answer is an error.
            OutcomeUnknown: the answer is not of this request (`answer.request-id`), so the payment may have been initiated: give the
                error's `request_id` again to find out.
            TransportError, RemoteProtocolError, FormatError: there is no answer, or not one of this interface.
            FormatError: `header.control-character`, an address that cannot stand in a header; nothing was sent.
        """
        call = self._calls.initiate_payment(
            payment, product=product, request_id=request_id, psu_ip_address=psu_ip_address, redirect_uri=redirect_uri
        )
        return self._send(call)

    def payment_status(self, payment_id: str, *, product: PaymentProduct = PaymentProduct.SEPA) -> PaymentStatus:
        """The payment's state. Raises as `initiate_payment`."""
        return self._send(self._calls.payment_status(payment_id, product=product))

    def payment_details(self, payment_id: str, *, product: PaymentProduct = PaymentProduct.SEPA) -> PaymentDetails:
        """The payment as submitted, and its state. Raises as `initiate_payment`."""
        return self._send(self._calls.payment_details(payment_id, product=product))

    def cancel_payment(self, payment_id: str, *, product: PaymentProduct = PaymentProduct.SEPA) -> PaymentStatus:
        """Cancel a payment that the customer has not opened. Raises as `initiate_payment`; 409 when it is too late."""
        return self._send(self._calls.cancel_payment(payment_id, product=product))

    def wait_for_payment(
        self, payment_id: str, *, product: PaymentProduct = PaymentProduct.SEPA, interval_s: float = POLL_INTERVAL_S,
        wait_s: float = WAIT_S, sleep: Callable[[float], None] = time.sleep, clock: Callable[[], float] = time.monotonic,
    ) -> TransactionStatus:  # fmt: skip
        """Poll until the payment is final.

        Args:
            payment_id: the payment.
            product: its product.
            interval_s: seconds between polls; the document suggests 2 to 5.
            wait_s: give up after this many seconds.
            sleep: waits a number of seconds.
            clock: monotonic seconds.

        Raises:
            TransportError: `payment.not-final` after `wait_s`; else as `initiate_payment`.
        """
        end = clock() + wait_s
        while True:
            status = self.payment_status(payment_id, product=product).transaction_status
            if status in PAYMENT.final:
                return status
            if clock() + interval_s > end:
                raise _not_final(payment_id, status, wait_s)
            sleep(interval_s)

    def _send(self, call: Call[Model]) -> Model:
        call = self._calls.seal(call)
        with _transport_errors(), deadline(self._timeout_s):
            response = self._http.send(self._request(self._http, call), **_AS_IT_IS)
            try:
                call.check_echo(response.status_code, response.headers)
                body = bytearray()
                if response.is_stream_consumed:
                    _extend(body, response.content)  # a hook or transport of the caller's has read it
                else:
                    for chunk in response.iter_raw():
                        _extend(body, chunk)
            except OutcomeUnknown:
                if stream := response.extensions.get("network_stream"):
                    stream.close()  # the body may have been read, and the connection be free for the next request
                raise
            finally:
                response.close()
        return call.read(ServerAnswer(response.status_code, bytes(body)))


class AsyncPsd2Client(_Client):
    """A bank's PSD2 interface, for asyncio. Arguments, methods and errors as `Psd2Client`."""

    def __init__(
        self, base_url: str, *, identity: Identity, timeout_s: float = DEFAULT_TIMEOUT_S,
        new_request_id: Callable[[], UUID] = uuid4, http: httpx.AsyncClient | None = None,
    ) -> None:  # fmt: skip
        super().__init__(base_url, identity, timeout_s, new_request_id)
        self._own = http is None
        self._http = make_async_client(identity, timeout_s=timeout_s) if http is None else http

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        if self._own:
            await self._http.aclose()

    async def initiate_payment(
        self, payment: PaymentInitiation, *, product: PaymentProduct = PaymentProduct.SEPA, request_id: UUID | None = None,
        psu_ip_address: str | None = None, redirect_uri: str | None = None,
    ) -> PaymentInitiated:  # fmt: skip
        """As `Psd2Client.initiate_payment`."""
        call = self._calls.initiate_payment(
            payment, product=product, request_id=request_id, psu_ip_address=psu_ip_address, redirect_uri=redirect_uri
        )
        return await self._send(call)

    async def payment_status(self, payment_id: str, *, product: PaymentProduct = PaymentProduct.SEPA) -> PaymentStatus:
        """As `Psd2Client.payment_status`."""
        return await self._send(self._calls.payment_status(payment_id, product=product))

    async def payment_details(
        self, payment_id: str, *, product: PaymentProduct = PaymentProduct.SEPA
    ) -> PaymentDetails:
        """As `Psd2Client.payment_details`."""
        return await self._send(self._calls.payment_details(payment_id, product=product))

    async def cancel_payment(self, payment_id: str, *, product: PaymentProduct = PaymentProduct.SEPA) -> PaymentStatus:
        """As `Psd2Client.cancel_payment`."""
        return await self._send(self._calls.cancel_payment(payment_id, product=product))

    async def wait_for_payment(
        self, payment_id: str, *, product: PaymentProduct = PaymentProduct.SEPA, interval_s: float = POLL_INTERVAL_S,
        wait_s: float = WAIT_S, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep, clock: Callable[[], float] = time.monotonic,
    ) -> TransactionStatus:  # fmt: skip
        """As `Psd2Client.wait_for_payment`."""
        end = clock() + wait_s
        while True:
            status = (await self.payment_status(payment_id, product=product)).transaction_status
            if status in PAYMENT.final:
                return status
            if clock() + interval_s > end:
                raise _not_final(payment_id, status, wait_s)
            await sleep(interval_s)

    async def _send(self, call: Call[Model]) -> Model:
        call = await self._calls.seal_async(call)
        with _transport_errors():
            async with asyncio.timeout(self._timeout_s):
                response = await self._http.send(self._request(self._http, call), **_AS_IT_IS)
                try:
                    call.check_echo(response.status_code, response.headers)
                    body = bytearray()
                    if response.is_stream_consumed:
                        _extend(body, response.content)
                    else:
                        async for chunk in response.aiter_raw():
                            _extend(body, chunk)
                except OutcomeUnknown:
                    if stream := response.extensions.get("network_stream"):
                        await stream.aclose()
                    raise
                finally:
                    await response.aclose()
        return call.read(ServerAnswer(response.status_code, bytes(body)))


def _extend(body: bytearray, chunk: bytes) -> None:
    # Raw chunks: `identity` was asked for, and unpacking what was not asked for could fill the memory in one step.
    body += chunk
    if len(body) > MAX_ANSWER_BYTES:
        raise RemoteProtocolError("answer.too-large", f"the answer has more than {MAX_ANSWER_BYTES} bytes")


def _not_final(payment_id: str, status: TransactionStatus, wait_s: float) -> TransportError:
    return TransportError("payment.not-final", f"payment {payment_id} is still {status} after {wait_s:g} seconds")


@contextmanager
def _transport_errors() -> Iterator[None]:
    try:
        yield
    except TIMEOUTS as e:
        raise TransportError("transport.timeout", f"the bank did not answer in time ({type(e).__name__})") from e
    except FAILURES as e:
        raise TransportError("transport.failed", f"the connection failed: {_reason(e)}") from e


def _reason(failure: BaseException) -> str:
    # OpenSSL gives the name that was asked for, but not that names in subjectAltName alone count.
    cause: BaseException | None = failure
    while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
        cause = cause.__cause__ or cause.__context__
    found = _OTHER_NAME.search(str(cause)) if cause is not None else None
    if found:
        return f"the server's certificate has no subjectAltName for {found[1]}; the common name is not used"
    return str(failure)[:200] or type(failure).__name__
