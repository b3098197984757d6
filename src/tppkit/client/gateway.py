"""The payment gateway from the merchant's side: one line for each builder of `gateway_calls`, for threads and asyncio.

    with GatewayClient(gateway_url, api_key=os.environ["API_KEY"]) as client:
        order = client.create_order(OrderRequest(currency="EUR", amount=1250, merchant_order_id="4711"))
        ...  # the customer pays at order.order_url
        state = client.delivery_state(order.id)

Source: gateway document.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing, closing

import httpx
from pydantic import SecretStr

from tppkit._files import PRIVATE, FilePath, as_path, flush, replacing
from tppkit._locals import without_locals
from tppkit.certificates.files import CertificateSource
from tppkit.client.connections import DEFAULT_TIMEOUT_S
from tppkit.client.driver import AsyncClient, Method, StreamMethod, SyncClient
from tppkit.client.gateway_calls import After, GatewayCalls, Start
from tppkit.client.tls_context import NoCertificate
from tppkit.metrics import Count
from tppkit.protocol.gateway import Query
from tppkit.protocol.gateway.payments import DeliveryState, delivery_state


class _Methods:
    create_order = Method(GatewayCalls.create_order)
    order = Method(GatewayCalls.order)
    capture = Method(GatewayCalls.capture)
    capture_amount = Method(GatewayCalls.capture_amount)
    void = Method(GatewayCalls.void)
    void_amount = Method(GatewayCalls.void_amount)
    initiate = Method(GatewayCalls.initiate)
    authenticate = Method(GatewayCalls.authenticate)
    refunds = Method(GatewayCalls.refunds)
    create_refund = Method(GatewayCalls.create_refund)
    payment_link = Method(GatewayCalls.payment_link)
    create_payment_link = Method(GatewayCalls.create_payment_link)
    wallet_session = Method(GatewayCalls.wallet_session)
    search = Method(GatewayCalls.search)
    orders = StreamMethod(GatewayCalls.orders)
    report = StreamMethod(GatewayCalls.report)
    report_text = StreamMethod(GatewayCalls.report_text)
    related_orders = StreamMethod(GatewayCalls.related_orders)


class GatewayClient(_Methods, SyncClient[GatewayCalls]):
    """The payment gateway, for threads. It needs a server: the key gives full access to the project.

    Args:
        base_url: `https://host[:port][/prefix]`.
        api_key: the key of the project; as `SecretStr`, it is not among the variables of a traceback either.
        server_anchors: path, PEM or DER bytes, or certificates of the server's authorities; None: the system's.
        timeout_s: time limit for each attempt of a call, in seconds.
        http: a client from `make_client(NoCertificate())` to use instead of a new one; it is not closed.
        sleep: waits a number of seconds, before a read is repeated; by default `time.sleep`.
        clock: monotonic seconds; by default `time.monotonic`.
        count: called after each request with `answered`, `refused` or `failed`, the code, and seconds, for metrics; see `SyncClient`.

    Raises:
        ConfigurationError, FormatError: `client.base-url`, `credentials.malformed`, `trust.no-anchors`, `certificate.*`, `file.*`.

    Example:
        with GatewayClient(gateway_url, api_key=os.environ["API_KEY"]) as client:
            order = client.create_order(OrderRequest(currency="EUR", amount=1250, merchant_order_id="4711"))
    """

    @without_locals
    def __init__(
        self, base_url: str, *, api_key: SecretStr | str, server_anchors: CertificateSource | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S, http: httpx.Client | None = None, sleep: Callable[[float], None] | None = None,
        clock: Callable[[], float] | None = None, count: Count | None = None,
    ) -> None:  # fmt: skip
        tls = NoCertificate(server_anchors=server_anchors)
        calls = GatewayCalls(base_url, api_key=api_key)
        super().__init__(calls, tls, timeout_s=timeout_s, http=http, sleep=sleep, clock=clock, count=count)

    def delivery_state(self, order_id: str, *, own_checkout: bool = False) -> DeliveryState:
        """Whether to deliver an order, by itself and the orders that were made from it. Each is fetched.

        Args:
            order_id: the order that the customer pays.
            own_checkout: see `is_paid`.

        Raises:
            TppkitError: as `order`.
        """
        return delivery_state(*self.related_orders(order_id), own_checkout=own_checkout)

    def write_report(
        self, query: str | Query, path: FilePath, *, page: Start | After | None = None, size: int | None = None, sort: str | None = None
    ) -> None:  # fmt: skip
        """Write a CSV report to a file that only its owner can read, in the place of the one that may be there.

        The file appears when the whole report has arrived and was checked; otherwise nothing changes. No cell is a formula for a
        spreadsheet: it gets an apostrophe (assumption csv-formulas).

        Args:
            query: see `search`.
            path: the file; its folder must exist.
            page: see `report`.
            size: see `report`.
            sort: see `search`.

        Raises:
            ConfigurationError: `file.unwritable`, `file.path`.
            RequestRefused, TransportError, RemoteProtocolError, FormatError: as `report`.
        """
        with (
            replacing(as_path(path), mode=PRIVATE) as file,
            closing(self.report_text(query, page=page, size=size, sort=sort)) as chunks,
        ):
            for chunk in chunks:
                file.write(chunk)


class AsyncGatewayClient(_Methods, AsyncClient[GatewayCalls]):
    """The payment gateway, for asyncio. Arguments, methods and errors are those of `GatewayClient`.

    Example:
        async with AsyncGatewayClient(gateway_url, api_key=os.environ["API_KEY"]) as client:
            order = await client.order(order_id)
    """

    @without_locals
    def __init__(
        self, base_url: str, *, api_key: SecretStr | str, server_anchors: CertificateSource | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S, http: httpx.AsyncClient | None = None,
        sleep: Callable[[float], Awaitable[None]] | None = None, clock: Callable[[], float] | None = None, count: Count | None = None,
    ) -> None:  # fmt: skip
        tls = NoCertificate(server_anchors=server_anchors)
        calls = GatewayCalls(base_url, api_key=api_key)
        super().__init__(calls, tls, timeout_s=timeout_s, http=http, sleep=sleep, clock=clock, count=count)

    async def delivery_state(self, order_id: str, *, own_checkout: bool = False) -> DeliveryState:
        """Whether to deliver an order; as `GatewayClient.delivery_state`."""
        return delivery_state(*[one async for one in self.related_orders(order_id)], own_checkout=own_checkout)

    async def write_report(
        self, query: str | Query, path: FilePath, *, page: Start | After | None = None, size: int | None = None, sort: str | None = None
    ) -> None:  # fmt: skip
        """Write a CSV report to a file; as `GatewayClient.write_report`."""
        with replacing(as_path(path), mode=PRIVATE) as file:
            async with aclosing(self.report_text(query, page=page, size=size, sort=sort)) as chunks:
                async for chunk in chunks:
                    await asyncio.to_thread(file.write, chunk)
            await asyncio.to_thread(flush, file)  # nothing is left that would block the event loop
