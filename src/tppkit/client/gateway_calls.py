"""The requests of the payment gateway, one builder for each endpoint, and what to do when an answer is lost."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeVar

from tppkit._encoding import shown
from tppkit.client.calls import Call, Lookup, PagedCall, StreamCall
from tppkit.client.card_calls import CardCalls
from tppkit.errors import OutcomeUnknown, RemoteProtocolError, TppkitError, TransportError
from tppkit.protocol.endpoint import Endpoint
from tppkit.protocol.gateway import F, Order, OrderRequest, PaymentLink, Query, endpoints
from tppkit.protocol.gateway.bodies import (
    AuthenticateRequest,
    CaptureRequest,
    InitiateRequest,
    PaymentLinkRequest,
    RefundRequest,
    ReportRow,
    SearchRequest,
    SearchResult,
    VoidRequest,
    WalletSession,
    WalletSessionRequest,
)
from tppkit.protocol.gateway.endpoints import GATEWAY
from tppkit.protocol.gateway.orders import Refund
from tppkit.protocol.gateway.payments import (
    check_order,
    external_authentication,
    is_linked,
    merchant_identifier,
)
from tppkit.protocol.gateway.search import DEFAULT_SIZE, FIRST_PAGE
from tppkit.protocol.gateway.values import require_uuid
from tppkit.protocol.reports import InertText

SHOWN_ORDERS = 5  # in messages

Q = TypeVar("Q")
A = TypeVar("A")

_RETRIEVE = "it may have been carried out: before you repeat it, retrieve the order {order_id} and look at "
_CAPTURE_ADVICE = _RETRIEVE + "is_capturable of the transaction, and at related_orders for a capture"
_VOID_ADVICE = _RETRIEVE + "is_capturable of the transaction, and at related_orders for a void"
_PAY_ADVICE = _RETRIEVE + "the status, events and payment_url of the transaction"
_REFUND_ADVICE = _RETRIEVE + "refunded_amount and refund_orders"
_LINK_ADVICE = "a link may have been created that no customer knows; another one does not change it"
_WALLET_ADVICE = "no money is moved by it: let the browser begin the validation again"


class OrderOutcomeUnknown(OutcomeUnknown):
    """The answer to the creation of an order was lost; the message names the search that followed, and what to do.

    Attributes:
        found: the orders with the request's merchant_order_id, perhaps also of earlier requests. Empty in a pickled copy, because
            orders can contain card data.
    """

    def __init__(self, code: str, message: str, *, status: int | None, found: tuple[Order, ...] = ()) -> None:
        super().__init__(code, message, status=status, request_id="")
        self.found = found

    def __reduce__(self) -> tuple[object, tuple[type[TppkitError], tuple[object, ...], dict[str, object]]]:
        """Leave the orders out."""
        restore, (kind, args, state) = super().__reduce__()
        return restore, (kind, args, {**state, "found": ()})


class Start(NamedTuple):
    """A page of simple paging, which ends after 10,000 results.

    Attributes:
        position: how many results are skipped.
    """

    position: int = 0


class After(NamedTuple):
    """A page of results beyond any number.

    Attributes:
        cursor: `search_after` of the page before; absent: the first page.
    """

    cursor: str = FIRST_PAGE


class GatewayCalls(CardCalls):
    """Builds the requests of the payment gateway; sends nothing. Arguments and errors are those of `CardCalls`."""

    interface = GATEWAY

    def create_order(self, order: OrderRequest) -> Call[Order]:
        """Create an order: POST /v1/orders/. It is sent once, and never repeated by this client.

        Args:
            order: what to pay. With a `merchant_order_id` of its own, it can be found again if the answer is lost.

        Raises:
            OrderOutcomeUnknown: the answer was lost; its `found` and message say what the gateway has. `order-lost.found`,
                `order-lost.not-found`, `order-lost.not-looked-up`.
            TransportError: no connection was made, so nothing was created.
            RequestRefused: the gateway answered with an error; nothing was created.
            LocalProtocolError: see `protocol.gateway.payments.check_order`; nothing was sent.
        """
        check_order(order)
        call = self.call(endpoints.CREATE_ORDER, order)
        return replace(call, lookup=self._lookup(order.merchant_order_id))

    def order(self, order_id: str) -> Call[Order]:
        """An order with all its transactions: GET /v1/orders/{order_id}/. `delivery_state` says whether to deliver.

        Raises:
            RequestRefused: the gateway answered with an error: 404, the project has no such order.
            TransportError: there is no answer.
            RemoteProtocolError, FormatError: the answer is not one of this interface; `answer.other-order`.
            FormatError: `id.malformed`; nothing was sent.
        """
        call = self._call(endpoints.ORDER_DETAILS, None, order_id=order_id)

        def result(raw: bytes) -> Order:
            order = call.result(raw)
            if order.id.lower() != order_id.lower():
                raise RemoteProtocolError(
                    "answer.other-order", f"the order {order_id} was answered with {shown(order.id)}"
                )
            return order

        return replace(call, result=result)

    def related_orders(self, order_id: str) -> PagedCall[Order]:
        """An order, then every order that was made from it, such as captures and refunds. Errors are those of `order`."""
        waiting, known = list[str](), {order_id.lower()}

        def following(order: Order) -> Call[Order] | None:
            lists = order.related_orders, order.refund_orders, order.chargeback_orders, order.reversal_orders
            found = {other.lower() for ids in lists for other in ids or ()} - known
            known.update(found)
            waiting.extend(found)
            return self.order(waiting.pop()) if waiting else None

        return PagedCall(self.order(order_id), lambda order: (order,), following)

    def capture(self, order_id: str, transaction_id: str) -> Call[Order]:
        """Capture all that can be captured: POST …/captures/. It is sent once.

        Returns:
            The capture order, linked by `capture_of_order_id`.

        Raises:
            RequestRefused: the gateway answered with an error; nothing was captured.
            OutcomeUnknown, TransportError: no answer says whether it was carried out; the message says what to look at.
            FormatError: `id.malformed`, `model.invalid`; nothing was sent.
        """
        return self._call(endpoints.CAPTURE, None, _CAPTURE_ADVICE, order_id=order_id, transaction_id=transaction_id)

    def capture_amount(self, order_id: str, transaction_id: str, amount: int, *, description: str) -> Call[Order]:
        """Capture a part and release the rest for ever: POST …/captures/amount/. Result and errors are those of `capture`."""
        body = CaptureRequest.from_object({"amount": amount, "description": description})
        return self._call(
            endpoints.CAPTURE_AMOUNT, body, _CAPTURE_ADVICE, order_id=order_id, transaction_id=transaction_id
        )

    def void(self, order_id: str, transaction_id: str) -> Call[Order]:
        """Release all that can be captured: POST …/voids/. Returns the void order; errors are those of `capture`."""
        return self._call(endpoints.VOID, None, _VOID_ADVICE, order_id=order_id, transaction_id=transaction_id)

    def void_amount(
        self, order_id: str, transaction_id: str, amount: int, *, description: str | None = None
    ) -> Call[Order]:
        """Release a part; the rest can still be captured: POST …/voids/amount/. Result and errors are those of `void`."""
        body = VoidRequest.from_object({"amount": amount, "description": description})
        return self._call(endpoints.VOID_AMOUNT, body, _VOID_ADVICE, order_id=order_id, transaction_id=transaction_id)

    def initiate(self, order_id: str, transaction_id: str, *, vault_token: str) -> Call[Order]:
        """Pay with a stored card in a recurring series: POST …/initiate/. Returns the order; errors are those of `capture`."""
        body = InitiateRequest.from_object({"vault_token": vault_token})
        return self._call(endpoints.INITIATE, body, _PAY_ADVICE, order_id=order_id, transaction_id=transaction_id)

    def authenticate(self, order_id: str, transaction_id: str, card: AuthenticateRequest) -> Call[Order]:
        """Pay with a stored card in an own checkout: POST …/authenticate/. A success does not mean that it was paid.

        Args:
            order_id: the order, created with one transaction.
            transaction_id: that transaction.
            card: vault token and cvc, and the four values of external 3-D Secure or none of them.

        Returns:
            The order. If it has a `redirect_url`, the customer authenticates there.

        Raises:
            LocalProtocolError: `external-authentication.incomplete`; nothing was sent. Otherwise as `capture`.
        """
        external_authentication(card, own_checkout=True)
        return self._call(endpoints.AUTHENTICATE, card, _PAY_ADVICE, order_id=order_id, transaction_id=transaction_id)

    def refunds(self, order_id: str) -> Call[tuple[Refund, ...]]:
        """The refunds of an order: GET …/refunds/. Errors are those of `order`."""
        return self._call(endpoints.REFUNDS, None, order_id=order_id)

    def create_refund(self, order_id: str, amount: int, *, description: str | None = None) -> Call[Order]:
        """Refund captured money, in the sandbox only (assumption gateway-extensions).

        Returns the refund order; errors are those of `capture`.
        """
        body = RefundRequest.from_object({"amount": amount, "description": description})
        return self._call(endpoints.CREATE_REFUND, body, _REFUND_ADVICE, order_id=order_id)

    def payment_link(self, payment_link_id: str) -> Call[PaymentLink]:
        """A payment link with its orders by status: GET /v1/paymentlinks/{payment_link_id}/. Errors are those of `order`."""
        return self._call(endpoints.PAYMENT_LINK_DETAILS, None, payment_link_id=payment_link_id)

    def create_payment_link(self, link: PaymentLinkRequest) -> Call[PaymentLink]:
        """Create a payment link, in the sandbox only (assumption gateway-extensions). Errors are those of `capture`."""
        return self._call(endpoints.CREATE_PAYMENT_LINK, link, _LINK_ADVICE)

    def wallet_session(
        self, *, project_id: str, validation_url: str, display_name: str, initiative_context: str
    ) -> Call[WalletSession]:
        """Validate a wallet session: POST /v1/wallet-pay/sessions/.

        Args:
            project_id: of the project, as the gateway shows it; it is sent without hyphens.
            validation_url: as the browser's event gave it; https.
            display_name: the shop's name, for the customer.
            initiative_context: the domain of the payment page, for example `shop.example`.

        Returns:
            `session_data`, for the browser to complete the validation with.

        Raises:
            RequestRefused, OutcomeUnknown, TransportError: as `capture`; no money is moved.
            FormatError: `id.malformed`, `model.invalid`; nothing was sent.
        """
        body = {
            "validationUrl": validation_url, "merchantIdentifier": merchant_identifier(require_uuid(project_id, "project_id")),
            "displayName": display_name, "initiativeContext": initiative_context,
        }  # fmt: skip
        return self._call(endpoints.WALLET_SESSION, WalletSessionRequest.from_object(body), _WALLET_ADVICE)

    def search(
        self, query: str | Query, *, page: Start | After | None = None, size: int | None = None, sort: str | None = None
    ) -> Call[SearchResult]:
        """One page of orders: POST /v1/search/orders/.

        Args:
            query: made by `F`, such as `F("status") == "completed"`, or a text in the gateway's language.
            page: which one; absent: the first. `Start` ends after 10,000 results; `After` does not.
            size: results of a page; absent: the gateway's default. The same for every page.
            sort: field and direction, such as `created asc`. The same for every page.

        Raises:
            FormatError: `model.invalid`; nothing was sent. Otherwise as `order`.
        """
        return self.call(endpoints.SEARCH, _search(query, page, size, sort))

    def orders(self, query: str | Query, *, size: int = DEFAULT_SIZE, sort: str = "created asc") -> PagedCall[Order]:
        """The orders of all pages, which the cursor of each page joins. Arguments and errors are those of `search`.

        Orders that no longer match while the pages are read do not shift the others, so a loop may change what it reads.
        """

        def page(cursor: str) -> Call[SearchResult]:
            return self.search(query, page=After(cursor), size=size, sort=sort)

        def following(found: SearchResult) -> Call[SearchResult] | None:
            return page(found.search_after) if found.orders and found.search_after is not None else None

        return PagedCall(page(FIRST_PAGE), lambda found: found.orders, following)

    def report(
        self, query: str | Query, *, page: Start | After | None = None, size: int | None = None, sort: str | None = None
    ) -> StreamCall[ReportRow]:
        """The transactions of orders as they arrive: POST /v1/search/orders/?format=csv.

        Args:
            query: see `search`.
            page: which orders; absent: from the first on, beyond 10,000 too.
            size: how many orders; absent: all (assumption csv-size).
            sort: see `search`.

        Raises:
            RequestRefused, TransportError, RemoteProtocolError: as `order`, also after some rows: discard them.
            FormatError: `model.invalid`, nothing was sent; `csv.*`, also after some rows.
        """
        return self.stream(endpoints.SEARCH_CSV, _search(query, After() if page is None else page, size, sort))

    def report_text(
        self, query: str | Query, *, page: Start | After | None = None, size: int | None = None, sort: str | None = None
    ) -> StreamCall[bytes]:
        """The report as CSV, with all its columns. Arguments and errors are those of `report`.

        Cells that a spreadsheet would take for formulas get an apostrophe (assumption csv-formulas).
        """
        return StreamCall(
            self.report(query, page=page, size=size, sort=sort).call, partial(InertText, endpoints.REPORT)
        )

    def _call(self, row: Endpoint[Q, A], content: Q, advice: str = "", **ids: str) -> Call[A]:
        for name, text in ids.items():
            require_uuid(text, name)
        return self.call(row, content, headers=(), to_find_out=advice.format(**ids), **ids)

    def _lookup(self, merchant_order_id: str | None) -> Lookup[SearchResult]:
        search = None if merchant_order_id is None else self.search(F("merchant_order_id") == merchant_order_id)
        return Lookup(search, lambda lost, result: _order_lost(merchant_order_id, lost, result))


def _search(query: str | Query, page: Start | After | None, size: int | None, sort: str | None) -> SearchRequest:
    start = page.position if isinstance(page, Start) else None
    cursor = page.cursor if isinstance(page, After) else None
    return SearchRequest.from_object(
        {"query": str(query), "size": size, "start": start, "sort": sort, "search_after": cursor}
    )


def _order_lost(
    merchant_order_id: str | None, lost: OutcomeUnknown | TransportError, result: SearchResult | TppkitError | None
) -> OrderOutcomeUnknown:
    """What is known of an order whose answer was lost, after the look-up."""
    status = lost.status if isinstance(lost, OutcomeUnknown) else None
    reason = f"the order may have been created ({lost.message})"
    if result is None:
        message = f"{reason}, and it has no merchant_order_id to look it up by: search by amount and time before you create it again"
        return OrderOutcomeUnknown("order-lost.not-looked-up", message, status=status)
    if isinstance(result, TppkitError):
        message = f"{reason}, and the search for its merchant_order_id failed too ({result.message}): search before you create it again"
        return OrderOutcomeUnknown("order-lost.not-looked-up", message, status=status)
    found = tuple(
        order for order in result.orders if order.merchant_order_id == merchant_order_id and not is_linked(order)
    )
    if not found:
        message = f"{reason}; no order has its merchant_order_id yet, which proves nothing: search again before you create it again"
        return OrderOutcomeUnknown("order-lost.not-found", message, status=status)
    named = ", ".join(_shown(order) for order in found[:SHOWN_ORDERS])
    count = "one order has" if len(found) == 1 else f"{len(found)} orders have"
    message = f"{reason}; {count} its merchant_order_id: {named}; compare amount and time before you create it again"
    return OrderOutcomeUnknown("order-lost.found", message, status=status, found=found)


def _shown(order: Order) -> str:
    return shown(f"{order.id}, {order.status}, {order.amount} {order.currency}, created {order.created}", limit=160)
