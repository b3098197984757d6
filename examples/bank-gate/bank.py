"""A bank's payment interface: sealed requests over mutual TLS, each with its effect and its evidence in one transaction.

    uvicorn --no-proxy-headers --no-server-header --uds run/bank.sock --factory bank:make_app

BANK_ANCHORS is the folder of the trusted authorities, BANK_DATABASE an SQLAlchemy address, BANK_ARCHIVE the folder of the evidence.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

from fastapi import FastAPI, Request, Response
from sqlalchemy import Column, Engine, MetaData, Numeric, String, Table, UniqueConstraint, create_engine, insert, select
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from starlette.concurrency import run_in_threadpool

from tppkit.errors import ArchiveError, LocalProtocolError, TppkitError
from tppkit.evidence import EvidenceArchive, make_record
from tppkit.evidence.outbox import Outbox
from tppkit.protocol.psd2 import (
    PSD2,
    ApprovalLinks,
    Href,
    PaymentInitiated,
    PaymentInitiation,
    PaymentProduct,
    PaymentStatus,
    TransactionStatus,
)
from tppkit.protocol.wire import require_media_type
from tppkit.seals import SealPolicy, VerifiedRequest
from tppkit.trust import PathVerifier, load_anchors
from tppkit.web import (
    AsgiSource,
    ProxyForm,
    QwacPolicy,
    ReplayGuard,
    SealGate,
    SealMiddleware,
    TrustedProxy,
    caller_of,
)
from tppkit.web.fastapi import Sealed
from tppkit.web.replay_stores.table import TableReplayStore

metadata = MetaData()
payments = Table(
    "payments",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("organisation", String(64), nullable=False),
    Column("request_id", String(36), nullable=False),
    Column("product", String(40), nullable=False),
    Column("creditor_iban", String(34), nullable=False),
    Column("amount", Numeric(18, 2), nullable=False),
    Column("status", String(4), nullable=False),
    UniqueConstraint(
        "organisation", "request_id"
    ),  # one effect, also if a process died before the replay store knew the answer
)


def make_app() -> FastAPI:
    """Build the application from the environment."""
    engine = create_engine(os.environ["BANK_DATABASE"])
    archive = EvidenceArchive(os.environ["BANK_ARCHIVE"], stream_id=uuid4().hex)
    outbox = Outbox(archive, metadata)
    metadata.create_all(engine)
    gate = make_gate(Path(os.environ["BANK_ANCHORS"]), os.environ["BANK_DATABASE"])

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        stopped = threading.Event()
        thread = threading.Thread(target=drain, args=(outbox, engine, stopped))
        thread.start()
        yield
        stopped.set()
        await run_in_threadpool(thread.join)
        archive.close()
        engine.dispose()

    app = FastAPI(lifespan=lifespan, openapi_url=None)
    app.add_middleware(SealMiddleware, gate=gate)

    @app.post("/psd2/v1/payments/{product}")
    def initiate(product: str, request: Request, verified: Sealed) -> Response:
        return initiate_payment(engine, outbox, request, verified, product)

    @app.get("/psd2/v1/payments/{product}/{payment_id}/status")
    def status(product: str, payment_id: str, request: Request) -> Response:
        return answer(200, read_status(engine, caller_of(request.scope).id, product, payment_id), request)

    @app.exception_handler(TppkitError)
    @app.exception_handler(SQLAlchemyError)  # answered 500 without details; the log has them
    async def refuse(request: Request, error: Exception) -> Response:
        refusal = gate.refuse(AsgiSource(request.scope), error)
        return Response(refusal.body, refusal.status, dict(refusal.headers))

    @app.exception_handler(404)
    async def not_found(request: Request, error: Exception) -> Response:
        return await refuse(request, LocalProtocolError("endpoint.unknown", "this bank does not offer it"))

    return app


def make_gate(anchors: Path, database: str) -> SealGate:
    """Trust these authorities and the proxy at the Unix socket, and accept each request id once."""
    paths = PathVerifier(load_anchors(anchors))
    return SealGate(
        PSD2,
        qwacs=QwacPolicy(paths),
        seals=SealPolicy(paths),
        trusted_proxies=[TrustedProxy("unix", form=ProxyForm.NGINX, forwarded_for=True)],
        address_is_raw=True,  # uvicorn --no-proxy-headers
        replay=ReplayGuard(TableReplayStore(database)),
    )


def initiate_payment(
    engine: Engine, outbox: Outbox, request: Request, verified: VerifiedRequest, product: str
) -> Response:
    """Store the payment that was signed, together with its evidence."""
    require_media_type(request.headers.get("Content-Type"), "application/json")
    require_product(product)
    payment = PaymentInitiation.from_wire(verified.body, unknown_fields=True)
    caller = caller_of(request.scope)
    row = {
        "id": str(uuid4()),
        "organisation": caller.id,
        "request_id": verified.request_id,
        "product": product,
        "creditor_iban": payment.creditor_account.iban,
        "amount": payment.instructed_amount.amount,
        "status": TransactionStatus.RCVD.value,
    }
    payment_id = find_payment(engine, caller.id, verified.request_id) if caller.repeated else None
    if payment_id is None:
        payment_id = row["id"]
        record = make_record(verified, http_status=201, payment_ref=payment_id, qwac_path=caller.qwac_path)
        try:
            with engine.begin() as db:
                db.execute(insert(payments), row)
                outbox.add(db, record)
        except IntegrityError as e:
            raise LocalProtocolError("request-id.reuse", "this request id was used for an earlier payment") from e
    path = f"/psd2/v1/payments/{product}/{payment_id}"
    links = ApprovalLinks(
        sca_redirect=Href(href=f"https://bank.example/approve/{payment_id}"),
        status=Href(href=f"{path}/status"),
        self_=Href(href=path),
    )
    made = PaymentInitiated(transaction_status=TransactionStatus.RCVD, payment_id=payment_id, links=links)
    return answer(201, made.to_wire(), request)


def find_payment(engine: Engine, organisation: str, request_id: str) -> str | None:
    """Return the payment that an earlier attempt of the same request made."""
    mine = (payments.c.organisation == organisation, payments.c.request_id == request_id)
    with engine.connect() as db:
        return db.scalar(select(payments.c.id).where(*mine))


def read_status(engine: Engine, organisation: str, product: str, payment_id: str) -> bytes:
    """Return the status of a payment of this provider; those of other providers do not exist for it."""
    require_product(product)
    mine = (payments.c.id == payment_id, payments.c.product == product, payments.c.organisation == organisation)
    with engine.connect() as db:
        found = db.scalar(select(payments.c.status).where(*mine))
    if found is None:
        raise LocalProtocolError("payment.unknown", "this provider has no such payment")
    return PaymentStatus(transaction_status=TransactionStatus(found)).to_wire()


def require_product(product: str) -> None:
    """Check the product of the path."""
    if product not in list(PaymentProduct):
        raise LocalProtocolError("product.unknown", f"there is no product {product}")


def answer(status: int, body: bytes, request: Request) -> Response:
    """Return an answer with the request id of its request."""
    return Response(body, status, {"X-Request-ID": request.headers["X-Request-ID"]}, media_type="application/json")


def drain(outbox: Outbox, engine: Engine, stopped: threading.Event) -> None:
    """Move committed records to the archive until the application stops, and once more then."""
    is_last, pause_s = False, 0.5
    while not is_last:
        is_last = stopped.wait(pause_s)
        try:
            outbox.drain(engine)
            pause_s = 0.5
        except (ArchiveError, SQLAlchemyError):
            logging.exception("evidence waits in the outbox")
            pause_s = 5
