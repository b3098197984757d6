"""The PSD2 host: an ASGI application that authenticates, verifies the seal, decides, keeps the evidence and answers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tppkit._clock import Clock
from tppkit.certificates import EidasCertificate
from tppkit.errors import FormatError, TppkitError, TransportError
from tppkit.evidence import EvidenceArchive, make_record
from tppkit.httpsig.message import Message
from tppkit.protocol.endpoint import Endpoint
from tppkit.protocol.psd2.endpoints import CANCEL_PAYMENT, INITIATE_PAYMENT, PAYMENT_DETAILS, PAYMENT_STATUS
from tppkit.protocol.psd2.errors import Refusal, refusal_for
from tppkit.protocol.psd2.models import MAX_BODY_BYTES
from tppkit.protocol.psd2.rules import (
    allowed_methods,
    find_endpoint,
    parse_redirect_uri,
    parse_request_id,
    require_json,
)
from tppkit.sandbox.psd2.payments import Answer, Payments, parse_product
from tppkit.sandbox.revocations import FolderRevocations
from tppkit.sandbox.store import Store, StoredPayment, Transaction
from tppkit.seals import SealPolicy, VerifiedRequest, verify_request
from tppkit.trust import PathVerifier, TrustedPath
from tppkit.web import QwacPolicy, peer_certificate, raw_target, read_message, require_authorized

_LOG = logging.getLogger("tppkit.sandbox.psd2")


@dataclass(frozen=True, slots=True)
class _Call:
    """One authenticated request of a provider with the endpoint's role."""

    endpoint: Endpoint
    parameters: Mapping[str, str]
    request: Request
    message: Message
    qwac_path: TrustedPath

    @property
    def qwac(self) -> EidasCertificate:
        return self.qwac_path.chain[0]

    @property
    def organization(self) -> str:
        identifier = self.qwac.organization_identifier
        return identifier.text if identifier else ""


class Psd2Host:
    """The PSD2 interface.

    Args:
        payments: the bank's payments.
        store: the database.
        archive: keeps every verified seal.
        paths: believes certificates.
        revocations: what `paths` knows of revocation; looked at anew with each request.
        now: the sandbox's clock.
    """

    def __init__(
        self,
        payments: Payments,
        *,
        store: Store,
        archive: EvidenceArchive,
        paths: PathVerifier,
        revocations: FolderRevocations,
        now: Clock,
    ) -> None:
        self._payments = payments
        self._store = store
        self._archive = archive
        self._revocations = revocations
        self._now = now
        self._qwacs = QwacPolicy(paths)
        self._seals = SealPolicy(paths)
        self._handlers: Mapping[str, Callable[[_Call], Answer]] = {
            INITIATE_PAYMENT.name: self._initiate_payment,
            PAYMENT_STATUS.name: self._payment_status,
            PAYMENT_DETAILS.name: self._payment_details,
            CANCEL_PAYMENT.name: self._cancel_payment,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        request = Request(scope, receive)
        response = await self._answer(request)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        try:
            call = await self._authenticate(request)
            result = self._handlers[call.endpoint.name](call)
        except TransportError:
            return Response(status_code=400)  # nobody is there to read it
        except TppkitError as e:
            return _refusal_response(request, e)
        except Exception:  # noqa: BLE001  # the last resort of a server: logged, and told as 500 without details
            _LOG.exception("%s %s failed", request.method, request.scope["path"])
            return _response(
                request, Refusal(500, "INTERNAL_SERVER_ERROR", "the request could not be handled").body(), 500
            )
        return _response(request, result.body, result.status)

    async def _authenticate(self, request: Request) -> _Call:
        # 1. The TLS certificate is a believed QWAC; a stranger is not told what there is (section 5 rule 3).
        # 2. Method and path, as they stood on the wire, are exactly an endpoint's.
        # 3. X-Request-ID is there once and is a UUID.
        # 4. The QWAC has the endpoint's role.
        # 5. The body is within its limit.
        path = self._provider(request)  # 1
        row, parameters = find_endpoint(request.method, _path(request))  # 2
        parse_request_id(_single(request, "x-request-id"))  # 3
        require_authorized(path.chain[0], row)  # 4
        message = await read_message(request.scope, request.receive, max_body_bytes=MAX_BODY_BYTES)  # 5
        return _Call(row, parameters, request, message, path)

    def _provider(self, request: Request) -> TrustedPath:
        self._revocations.refresh()
        return self._qwacs.verify(peer_certificate(request.scope), at=self._now())

    def _initiate_payment(self, call: _Call) -> Answer:
        now = self._now()
        verified = verify_request(call.message, qwac=call.qwac, at=now, policy=self._seals)
        try:
            with self._store.transaction() as tx:
                product = parse_product(call.parameters["product"])
                require_json(_single(call.request, "content-type"))
                redirect_uri = _redirect_uri(call.request)
                answer = self._payments.initiate(
                    verified, product, organization=call.organization, redirect_uri=redirect_uri, now=now, tx=tx
                )
                self._keep(call, verified, answer.status, None, answer.payment_id)
                return answer
        except TppkitError as e:
            refusal = refusal_for(e)
            if refusal.status < 500:
                self._keep(call, verified, refusal.status, refusal.code, None)
            raise

    def _keep(
        self, call: _Call, verified: VerifiedRequest, status: int, code: str | None, payment_id: str | None
    ) -> None:
        record = make_record(
            verified,
            http_status=status,
            error_code=code,
            payment_ref=payment_id,
            clock_source="sandbox",
            qwac_chain=call.qwac_path.chain[1:],
        )
        self._archive.append(record, *verified.chain, *call.qwac_path.chain)

    def _payment_status(self, call: _Call) -> Answer:
        with self._store.transaction() as tx:
            return self._payments.status(self._payment(call, tx))

    def _payment_details(self, call: _Call) -> Answer:
        with self._store.transaction() as tx:
            return self._payments.details(self._payment(call, tx))

    def _cancel_payment(self, call: _Call) -> Answer:
        with self._store.transaction() as tx:
            return self._payments.cancel(self._payment(call, tx), tx=tx)

    def _payment(self, call: _Call, tx: Transaction) -> StoredPayment:
        product = parse_product(call.parameters["product"])
        return self._payments.of_provider(
            call.organization, product, call.parameters["payment_id"], now=self._now(), tx=tx
        )


def _path(request: Request) -> str:
    return raw_target(request.scope).partition(b"?")[0].decode("latin-1")


def _single(request: Request, name: str) -> str | None:
    values = request.headers.getlist(name)
    if len(values) > 1:
        raise FormatError("header.duplicate", f"the {name} header stands more than once")
    return values[0] if values else None


def _redirect_uri(request: Request) -> str | None:
    # Assumption uncovered-headers: nobody signed it.
    uri = _single(request, "tpp-redirect-uri")
    return None if uri is None else parse_redirect_uri(uri)


def _response(request: Request, body: bytes, status: int) -> Response:
    headers = {"Cache-Control": "no-store"}
    with suppress(FormatError):  # what is no request id is not echoed
        headers["X-Request-ID"] = parse_request_id(_single(request, "x-request-id"))
    return Response(body, status_code=status, media_type="application/json", headers=headers)


def _refusal_response(request: Request, error: TppkitError) -> Response:
    refusal = refusal_for(error)
    _LOG.log(logging.ERROR if refusal.status >= 500 else logging.INFO, "%d %s: %s", refusal.status, refusal.code, error)
    response = _response(request, refusal.body(), refusal.status)
    if refusal.status == 405:
        response.headers["Allow"] = ", ".join(allowed_methods(_path(request)))  # RFC 9110 section 15.5.6
    return response
