"""The PSD2 host: an ASGI application that authenticates, verifies the seal, decides, keeps the evidence and answers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

from tppkit._clock import Clock
from tppkit.certificates import EidasCertificate
from tppkit.errors import FormatError, LocalProtocolError, TppkitError, TransportError
from tppkit.evidence import EvidenceArchive, make_record
from tppkit.httpsig.message import Message
from tppkit.protocol.endpoint import Endpoint
from tppkit.protocol.psd2.endpoints import CANCEL_PAYMENT, ENDPOINTS, INITIATE_PAYMENT, PAYMENT_DETAILS, PAYMENT_STATUS
from tppkit.protocol.psd2.errors import Refusal, refusal_for
from tppkit.protocol.psd2.models import MAX_BODY_BYTES
from tppkit.protocol.psd2.rules import parse_redirect_uri, parse_request_id, require_json, require_role
from tppkit.sandbox.psd2.payments import Answer, Payments, parse_product
from tppkit.sandbox.store import Store, StoredPayment, Transaction
from tppkit.seals import SealPolicy, VerifiedRequest, verify_request
from tppkit.trust import PathVerifier, TrustedPath
from tppkit.web import QwacPolicy, peer_certificate, read_message

_LOG = logging.getLogger("tppkit.sandbox.psd2")


@dataclass(frozen=True, slots=True)
class _Call:
    """One authenticated request of a provider with the endpoint's role."""

    endpoint: Endpoint
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
        now: the sandbox's clock.
    """

    def __init__(
        self, payments: Payments, *, store: Store, archive: EvidenceArchive, paths: PathVerifier, now: Clock
    ) -> None:
        self._payments = payments
        self._store = store
        self._archive = archive
        self._now = now
        self._qwacs = QwacPolicy(paths)
        self._seals = SealPolicy(paths)
        handlers = {
            INITIATE_PAYMENT.name: self._initiate_payment,
            PAYMENT_STATUS.name: self._payment_status,
            PAYMENT_DETAILS.name: self._payment_details,
            CANCEL_PAYMENT.name: self._cancel_payment,
        }
        self._routes = [
            Route(row.path, self._endpoint(row, handlers[row.name]), methods=[row.method]) for row in ENDPOINTS.values()
        ]
        self.app = Starlette(routes=self._routes, exception_handlers={HTTPException: self._not_routed})
        self.app.router.redirect_slashes = False  # a sealed request is never sent elsewhere

    def _endpoint(self, row: Endpoint, handler: Callable[[_Call], Answer]) -> Callable[[Request], object]:
        async def answer(request: Request) -> Response:
            if request.method != row.method:  # Starlette routes HEAD to GET rows
                return self._wrong_method(request)
            try:
                call = await self._authenticate(row, request)
                result = handler(call)
            except TransportError:
                return Response(status_code=400)  # nobody is there to read it
            except TppkitError as e:
                return _refusal_response(request, e)
            except Exception:  # noqa: BLE001  # the last resort of a server: logged, and told as 500 without details
                _LOG.exception("%s %s failed", row.method, row.path)
                return _response(
                    request, Refusal(500, "INTERNAL_SERVER_ERROR", "the request could not be handled").body(), 500
                )
            return _response(request, result.body, result.status)

        return answer

    async def _authenticate(self, row: Endpoint, request: Request) -> _Call:
        # 1. The TLS certificate is a believed QWAC.
        # 2. X-Request-ID is there once and is a UUID.
        # 3. The QWAC has the endpoint's role.
        # 4. The body is within its limit.
        path = self._provider(request)  # 1
        parse_request_id(_single(request, "x-request-id"))  # 2
        require_role(row, path.chain[0].roles)  # 3
        message = await read_message(request.scope, request.receive, max_body_bytes=MAX_BODY_BYTES)  # 4
        return _Call(row, request, message, path)

    def _provider(self, request: Request) -> TrustedPath:
        return self._qwacs.verify(peer_certificate(request.scope), at=self._now())

    def _initiate_payment(self, call: _Call) -> Answer:
        now = self._now()
        verified = verify_request(call.message, qwac=call.qwac, at=now, policy=self._seals)
        try:
            with self._store.transaction() as tx:
                product = parse_product(call.request.path_params["product"])
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
        parameters = call.request.path_params
        product = parse_product(parameters["product"])
        return self._payments.of_provider(call.organization, product, parameters["payment_id"], now=self._now(), tx=tx)

    async def _not_routed(self, request: Request, error: Exception) -> Response:
        try:
            self._provider(request)  # a stranger is not told what there is (section 5 rule 3)
        except TppkitError as e:
            return _refusal_response(request, e)
        if isinstance(error, HTTPException) and error.status_code == 405:
            return self._wrong_method(request)
        return _refusal_response(request, LocalProtocolError("endpoint.unknown", "no endpoint has this path"))

    def _wrong_method(self, request: Request) -> Response:
        found = zip(self._routes, ENDPOINTS.values(), strict=True)
        methods = ", ".join(row.method for route, row in found if route.matches(request.scope)[0] is not Match.NONE)
        failure = LocalProtocolError("endpoint.method", f"{request.method} is not a method of this path, but {methods}")
        response = _refusal_response(request, failure)
        response.headers["Allow"] = methods  # RFC 9110 section 15.5.6
        return response


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
    return _response(request, refusal.body(), refusal.status)
