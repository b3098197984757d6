"""The PSD2 interface from the provider's side: one builder and one line for each endpoint.

    with Psd2Client("https://psd2.bank.example", identity=identity) as client:
        initiated = client.initiate_payment(payment)
        final = client.wait_for_payment(initiated.payment_id)

Source: PSD2 document, part A.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import TypeVar
from uuid import UUID, uuid4

import httpx

from tppkit._clock import utc_now
from tppkit.client.calls import Call, Calls, Polling, split_base_url
from tppkit.client.connections import DEFAULT_TIMEOUT_S
from tppkit.client.credentials import SealCredentials
from tppkit.client.driver import AsyncClient, Method, SyncClient
from tppkit.client.identity import Identity
from tppkit.errors import TransportError
from tppkit.httpsig.components import parse_origin
from tppkit.protocol.endpoint import Endpoint
from tppkit.protocol.psd2 import (
    PAYMENT,
    PSD2,
    PaymentDetails,
    PaymentInitiated,
    PaymentInitiation,
    PaymentProduct,
    PaymentStatus,
    TransactionStatus,
)
from tppkit.protocol.psd2.endpoints import CANCEL_PAYMENT, INITIATE_PAYMENT, PAYMENT_DETAILS, PAYMENT_STATUS
from tppkit.protocol.psd2.rules import parse_redirect_uri

POLL_INTERVAL_S = 3.0  # the document suggests 2 to 5 seconds
WAIT_S = 600.0

_REPEAT = (
    "it may have been carried out: to find out, send it again within the hour with the same X-Request-ID {id}, which returns the "
    "first answer and does nothing twice"
)
_ASK_STATUS = "it may have been carried out: to find out, ask for the payment's status"

_NO_HEADERS: Mapping[str, str | None] = MappingProxyType({})

Q = TypeVar("Q")
A = TypeVar("A")


class Psd2Calls(Calls):
    """Builds the requests of the PSD2 interface; sends nothing.

    Args:
        base_url: `https://host[:port]`, with a path prefix where a gateway needs one.
        identity: its seal signs what must be signed.
        new_request_id: makes X-Request-IDs.
        now: the present time, aware.

    Raises:
        ConfigurationError: `client.base-url`, `seal.other-origin`.
    """

    def __init__(
        self, base_url: str, *, identity: Identity, new_request_id: Callable[[], UUID] = uuid4,
        now: Callable[[], datetime] = utc_now,
    ) -> None:  # fmt: skip
        credentials = SealCredentials(identity, origin=parse_origin(split_base_url(base_url)[0]), now=now)
        super().__init__(PSD2, base_url, credentials=credentials)
        self._new_request_id = new_request_id

    def initiate_payment(
        self, payment: PaymentInitiation, *, product: PaymentProduct = PaymentProduct.SEPA, request_id: UUID | None = None,
        psu_ip_address: str | None = None, redirect_uri: str | None = None,
    ) -> Call[PaymentInitiated]:  # fmt: skip
        """Initiate a payment: POST /payments/{payment-product}.

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
            OutcomeUnknown: the answer is not of this request (`answer.request-id`), so the payment may have been initiated: pass the
                error's `request_id` again to find out.
            TransportError: there is no answer, so the payment may have been initiated; the message says how to find out.
            RemoteProtocolError, FormatError: the answer is not one of this interface.
            FormatError: `header.control-character`, an address that cannot be sent in a header; nothing was sent.
        """
        redirect_uri = None if redirect_uri is None else parse_redirect_uri(redirect_uri)
        further = {"PSU-IP-Address": psu_ip_address, "TPP-Redirect-URI": redirect_uri}
        return self._call(
            INITIATE_PAYMENT, payment, request_id, to_find_out=_REPEAT, further=further, product=product.value
        )

    def payment_status(self, payment_id: str, *, product: PaymentProduct = PaymentProduct.SEPA) -> Call[PaymentStatus]:
        """The payment's state: GET /payments/{payment-product}/{paymentId}/status. Raises as `initiate_payment`."""
        return self._call(PAYMENT_STATUS, None, product=product.value, payment_id=payment_id)

    def payment_details(
        self, payment_id: str, *, product: PaymentProduct = PaymentProduct.SEPA
    ) -> Call[PaymentDetails]:
        """The payment as submitted, and its state: GET /payments/{payment-product}/{paymentId}. Raises as `initiate_payment`."""
        return self._call(PAYMENT_DETAILS, None, product=product.value, payment_id=payment_id)

    def cancel_payment(self, payment_id: str, *, product: PaymentProduct = PaymentProduct.SEPA) -> Call[PaymentStatus]:
        """Cancel a payment that the customer has not opened: DELETE /payments/{payment-product}/{paymentId}.

        Raises as `initiate_payment`; RequestRefused has status 409 when it is too late.
        """
        return self._call(
            CANCEL_PAYMENT, None, to_find_out=_ASK_STATUS, product=product.value, payment_id=payment_id
        )  # fmt: skip

    def wait_for_payment(
        self, payment_id: str, *, product: PaymentProduct = PaymentProduct.SEPA, interval_s: float = POLL_INTERVAL_S,
        wait_s: float = WAIT_S,
    ) -> Call[TransactionStatus]:  # fmt: skip
        """Poll until the payment is final, and return its state.

        Args:
            payment_id: the payment.
            product: its product.
            interval_s: seconds between polls; the document suggests 2 to 5.
            wait_s: give up after this many seconds.

        Raises:
            TransportError: `payment.not-final` after `wait_s`; otherwise as `initiate_payment`.
        """

        def not_final(status: TransactionStatus) -> TransportError:
            return TransportError(
                "payment.not-final", f"payment {payment_id} is still {status} after {wait_s:g} seconds"
            )

        def poll() -> Call[TransactionStatus]:
            call = self.payment_status(payment_id, product=product)
            return Call(call.row, call.message, lambda raw: call.result(raw).transaction_status, call.request_id)

        polling = Polling(PAYMENT.final.__contains__, poll, interval_s, wait_s, not_final)
        return replace(poll(), polling=polling)

    def _call(
        self, row: Endpoint[Q, A], content: Q, request_id: UUID | None = None, *, to_find_out: str = "",
        further: Mapping[str, str | None] = _NO_HEADERS, **parameters: str,
    ) -> Call[A]:  # fmt: skip
        rid = str(request_id or self._new_request_id())
        headers = [("X-Request-ID", rid), *[(name, value) for name, value in further.items() if value is not None]]
        advice = to_find_out.format(id=rid)
        return self.call(row, content, headers=headers, request_id=rid, to_find_out=advice, **parameters)


class _Methods:
    initiate_payment = Method(Psd2Calls.initiate_payment)
    payment_status = Method(Psd2Calls.payment_status)
    payment_details = Method(Psd2Calls.payment_details)
    cancel_payment = Method(Psd2Calls.cancel_payment)
    wait_for_payment = Method(Psd2Calls.wait_for_payment)


class Psd2Client(_Methods, SyncClient[Psd2Calls]):
    """A bank's PSD2 interface, for threads.

    Args:
        base_url: `https://host[:port][/prefix]`.
        identity: QWAC and seal.
        timeout_s: for each attempt of a call, in seconds, however slowly the answer comes.
        new_request_id: makes X-Request-IDs.
        http: a client to use instead of an own one, as `make_client` gives it; it is not closed. Its own `auth` and its
            following of redirects are not used.
        sleep: waits a number of seconds, between polls and before a request is repeated.
        clock: monotonic seconds.

    Example:
        with Psd2Client("https://psd2.bank.example", identity=identity) as client:
            initiated = client.initiate_payment(payment)
            final = client.wait_for_payment(initiated.payment_id)
    """

    def __init__(
        self, base_url: str, *, identity: Identity, timeout_s: float = DEFAULT_TIMEOUT_S,
        new_request_id: Callable[[], UUID] = uuid4, http: httpx.Client | None = None,
        sleep: Callable[[float], None] = time.sleep, clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        calls = Psd2Calls(base_url, identity=identity, new_request_id=new_request_id)
        super().__init__(calls, identity, timeout_s=timeout_s, http=http, sleep=sleep, clock=clock)


class AsyncPsd2Client(_Methods, AsyncClient[Psd2Calls]):
    """A bank's PSD2 interface, for asyncio. Arguments, methods and errors are those of `Psd2Client`.

    Example:
        async with AsyncPsd2Client("https://psd2.bank.example", identity=identity) as client:
            initiated = await client.initiate_payment(payment)
            final = await client.wait_for_payment(initiated.payment_id)
    """

    def __init__(
        self, base_url: str, *, identity: Identity, timeout_s: float = DEFAULT_TIMEOUT_S,
        new_request_id: Callable[[], UUID] = uuid4, http: httpx.AsyncClient | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep, clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        calls = Psd2Calls(base_url, identity=identity, new_request_id=new_request_id)
        super().__init__(calls, identity, timeout_s=timeout_s, http=http, sleep=sleep, clock=clock)
