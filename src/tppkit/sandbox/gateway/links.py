"""Payment links: the merchants' handlers, and changes that follow the links' orders. Customers pay links in `hosted`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tppkit.errors import LocalProtocolError
from tppkit.protocol.gateway.authorisations import LINK_PERIOD, ends_at
from tppkit.protocol.gateway.bodies import PaymentLink, PaymentLinkRequest
from tppkit.protocol.gateway.endpoints import CREATE_PAYMENT_LINK, PAYMENT_LINK_DETAILS
from tppkit.protocol.gateway.states import PAYMENT_LINK, LinkStatus, LinkTrigger, OrderStatus
from tppkit.protocol.gateway.values import write_timestamp
from tppkit.sandbox.cell import Answer, Handler, HostCall
from tppkit.sandbox.clock import run_contained
from tppkit.sandbox.gateway.link_tables import LINKS, StoredLink, due_links, orders_of_link, stop_link
from tppkit.sandbox.gateway.settings import Place, Work
from tppkit.sandbox.gateway.tables import StoredOrder

_REASONS = {  # assumption link-reason
    LinkStatus.NEW: "no customer has tried to pay",
    LinkStatus.PROCESSING: "a payment is in progress",
    LinkStatus.ALL_UNSUCCESSFUL: "every payment so far failed",
    LinkStatus.COMPLETED: "a payment succeeded",
    LinkStatus.EXPIRED: "it ended without a payment",
}


def create_link(call: HostCall[PaymentLinkRequest]) -> Answer[PaymentLink]:
    """POST /sandbox/v1/paymentlinks/ (assumption gateway-extensions)."""
    link = new_link(call, call.body, call.caller)
    return Answer(link_answer(call, link), due_at=link.due_at)


def link_details(call: HostCall[None]) -> Answer[PaymentLink]:
    """GET /v1/paymentlinks/{payment_link_id}/."""
    link = LINKS.find(call.db, call.parameters["payment_link_id"].lower())
    if link is None or link.project_id != call.caller:
        raise LocalProtocolError("payment-link.unknown", "the project has no payment link with this id")
    return Answer(link_answer(call, link))


HANDLERS = (Handler(CREATE_PAYMENT_LINK, create_link), Handler(PAYMENT_LINK_DETAILS, link_details, writes=False))


def new_link(work: Work, request: PaymentLinkRequest, project_id: str) -> StoredLink:
    """Store a new link, without fields that the document does not list.

    Raises:
        LocalProtocolError: `order.method`, the project has none of its payment_methods; `gateway.webhook-url`.
    """
    settings, at = work.settings, work.at
    settings.require_webhook_url(request.webhook_url)
    settings.project(project_id).offered(request.payment_methods)
    listed = {name: getattr(request, name) for name in PaymentLinkRequest.model_fields}
    link = StoredLink(
        id=settings.new_uuid(), project_id=project_id, page_token=settings.new_id(), status=PAYMENT_LINK.initial,
        terms=PaymentLinkRequest.model_construct(**listed), created_at=at, modified_at=at,
        ends_at=ends_at(at, request.expiration_period, default=LINK_PERIOD),
    )  # fmt: skip
    LINKS.add(work.db, link)
    return link


def link_answer(work: Work, link: StoredLink) -> PaymentLink:
    """Return the merchant's view of a link."""
    terms = {name: getattr(link.terms, name) for name in PaymentLinkRequest.model_fields}
    is_completed = link.status is LinkStatus.COMPLETED
    return PaymentLink.model_construct(
        **terms, id=link.id, project_id=link.project_id, merchant_id=work.settings.project(link.project_id).merchant_id,
        status=link.status, reason=_REASONS[link.status], payment_url=work.settings.page_url(Place.LINK, link.page_token),
        completed_order_id=link.completed_order_id, orders=orders_of_link(work.db, link.id), created=write_timestamp(link.created_at),
        modified=write_timestamp(link.modified_at), completed=write_timestamp(link.modified_at) if is_completed else None,
    )  # fmt: skip


def follow_order(work: Work, order: StoredOrder) -> None:
    """Change the link of an order whose status has just changed; each order of a link is one attempt."""
    link = None if order.link_id is None else LINKS.lock(work.db, order.link_id)
    if link is None:
        return
    if order.status is OrderStatus.PROCESSING:
        _move(work, link, LinkTrigger.STARTED)
    elif order.status is OrderStatus.COMPLETED:
        _move(work, replace(link, completed_order_id=order.id), LinkTrigger.PAID)
    else:
        link = _move(work, link, LinkTrigger.FAILED)
        if work.at >= link.ends_at:  # the expiry has waited for this attempt
            _move(work, link, LinkTrigger.EXPIRED)


def run_due(work: Work) -> None:
    """Expire due links. If an internal error occurs, the link does not change, and `check_gateway` reports it."""
    for link_id in due_links(work.db, work.at):
        if not run_contained(work.db, f"the payment link {link_id}", partial(_expire, work, link_id)):
            stop_link(work.db, link_id)


def _expire(work: Work, link_id: str) -> None:
    link = LINKS.lock(work.db, link_id)
    if link is not None and link.due_at is not None:
        _move(work, link, LinkTrigger.EXPIRED)


def _move(work: Work, link: StoredLink, trigger: LinkTrigger) -> StoredLink:
    moved = replace(link, status=PAYMENT_LINK.move(link.status, trigger), modified_at=work.at)
    LINKS.set(work.db, moved)
    return moved
