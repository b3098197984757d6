"""The PSD2 host: an ASGI application behind the seal middleware that decides, keeps the evidence and answers."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tppkit._clock import Clock
from tppkit._text import printable
from tppkit.certificates import OrganizationPolicy
from tppkit.errors import ConfigurationError, FormatError, TppkitError
from tppkit.evidence import EvidenceArchive, make_record
from tppkit.protocol.psd2 import PSD2
from tppkit.protocol.psd2.endpoints import CANCEL_PAYMENT, INITIATE_PAYMENT, PAYMENT_DETAILS, PAYMENT_STATUS
from tppkit.protocol.psd2.rules import parse_redirect_uri, parse_request_id, request_fingerprint, require_json
from tppkit.protocol.refusals import Refusal
from tppkit.protocol.wire import MAX_BODY_BYTES
from tppkit.sandbox.psd2.payments import Answer, Payments, parse_product
from tppkit.sandbox.request_log import without_tokens
from tppkit.sandbox.revocations import FolderRevocations
from tppkit.sandbox.store import MAX_REQUEST_ID, RETRY_AFTER_S, Store, StoredPayment, Transaction
from tppkit.seals import SealPolicy, VerifiedRequest
from tppkit.trust import PathVerifier, TrustedPath
from tppkit.web import AsgiSource, Caller, PeerCertificate, QwacPolicy, SealGate
from tppkit.web.message import receive_chunk

_LOGGER = logging.getLogger("tppkit.sandbox.psd2")
_EVIDENCE_LOGGER = logging.getLogger("tppkit.sandbox.evidence")


class _CurrentQwacs(QwacPolicy):
    """Believes QWACs by the revocation lists as they are now."""

    def __init__(self, paths: PathVerifier, revocations: FolderRevocations, organizations: OrganizationPolicy) -> None:
        super().__init__(paths, organizations=organizations)
        self._revocations = revocations

    def verify(self, peer: PeerCertificate, *, at: datetime) -> TrustedPath:
        self._revocations.refresh()
        if not self.paths.anchors.intermediates:
            # A verifier that remembers a certificate would not ask for its intermediates a second time.
            self.paths = PathVerifier(self.paths.anchors, revocation=self.paths.revocation)
        return super().verify(peer, at=at)


def _refusal(error: Exception) -> Refusal:
    if not isinstance(error, TppkitError):
        return Refusal(500, "INTERNAL_SERVER_ERROR", "the request could not be handled")
    if error.code in ("pki.unusable", "database.unavailable"):
        # With the reason: who tests against a sandbox wants to know what is wrong with its folder or database.
        return Refusal(503, "SERVICE_UNAVAILABLE", f"{error.message} ({error.code})")
    return PSD2.refusals.refusal_for(error)


class Psd2Host:
    """The PSD2 interface.

    Args:
        payments: the bank's payments.
        store: the database.
        archive: keeps every verified seal.
        seals: what is demanded of a seal; its profile is the dialect, its organizations those that QWACs may name.
        qwac_paths: verifies the certificates of connections.
        revocations: what both know of revocation; looked at anew with each request.
        real_now: the clock at which certificates and seals are judged, and which the evidence keeps.
        virtual_now: the sandbox's clock, which moves payments and the window of a request id.
    """

    def __init__(
        self,
        payments: Payments,
        *,
        store: Store,
        archive: EvidenceArchive,
        seals: SealPolicy,
        qwac_paths: PathVerifier,
        revocations: FolderRevocations,
        real_now: Clock,
        virtual_now: Clock,
    ) -> None:
        self._payments = payments
        self._store = store
        self._archive = archive
        self._now = virtual_now
        self._request_id_header = seals.profile.request_id or "x-request-id"
        self._gate = SealGate(
            PSD2,
            qwacs=_CurrentQwacs(qwac_paths, revocations, seals.organizations),
            seals=seals,
            now=real_now,
            max_body_bytes=MAX_BODY_BYTES,
        )
        self._handlers: Mapping[str, Callable[[_Call, Request], Awaitable[Answer]]] = {
            INITIATE_PAYMENT.name: self._initiate_payment,
            PAYMENT_STATUS.name: self._payment_status,
            PAYMENT_DETAILS.name: self._payment_details,
            CANCEL_PAYMENT.name: self._cancel_payment,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        source = AsgiSource(scope)
        request = Request({**scope, "headers": list(source.raw_headers)})
        try:
            route, pending = self._gate.enter(source)
            more = True
            while more:
                chunk, more = await receive_chunk(receive)
                pending.update(chunk)
            caller, _ = pending.finish()
            answer = await self._handlers[route.row.name](_Call(caller, route.parameters), request)
            response = Response(answer.body, answer.status, self._headers(request), "application/json")
        except Exception as e:  # noqa: BLE001  # the last resort of a server: logged, and answered with 500 without details
            response = self._refuse(source, e)
        await response(scope, receive, send)

    def _refuse(self, source: AsgiSource, error: Exception) -> Response:
        refusal = _refusal(error)
        answer = self._gate.answer(source, refusal)
        failed = refusal.status >= 500
        _LOGGER.log(
            logging.ERROR if failed else logging.WARNING, "  %s", without_tokens(printable(str(error))),
            exc_info=error if failed else None,
        )  # fmt: skip
        later = {"Retry-After": str(RETRY_AFTER_S)} if refusal.status == 503 else {}
        return Response(answer.body, answer.status, {**dict(answer.headers), **later})

    def _headers(self, request: Request) -> Mapping[str, str]:
        name = self._request_id_header
        value = _single(request, name)
        echo = {} if value is None else {"X-Request-ID" if name == "x-request-id" else name: value}
        return {"Cache-Control": "no-store", **echo}

    def _request_id(self, request: Request) -> str:
        # Assumption uncovered-request-id: some dialects cover none.
        return parse_request_id(_single(request, self._request_id_header))

    async def _initiate_payment(self, call: _Call, request: Request) -> Answer:
        verified = _verified(call)

        def initiate(tx: Transaction) -> Answer:
            product = parse_product(call.parameters["product"])
            require_json(_single(request, "content-type"))
            answer = self._payments.initiate(
                verified.unverified_message,
                product,
                request_id=self._request_id(request),
                organization=call.caller.id,
                redirect_uri=_redirect_uri(request),
                now=self._now(),
                tx=tx,
            )
            self._keep(call, verified, answer.status, None, answer.payment_id, tx=tx)
            return answer

        try:
            return await self._store.run(initiate)
        except TppkitError as e:
            refusal = PSD2.refusals.refusal_for(e)
            if refusal.status < 500:
                await self._store.run(lambda tx: self._keep(call, verified, refusal.status, refusal.code, None, tx=tx))
            raise

    def _keep(
        self,
        call: _Call,
        verified: VerifiedRequest,
        status: int,
        code: str | None,
        payment_id: str | None,
        *,
        tx: Transaction,
    ) -> None:
        """Keep a request with its answer; if both were kept before, count the repeat instead (assumption retained-repeats)."""
        message = verified.unverified_message
        request_id = next(iter(message.values(self._request_id_header)), "")[:MAX_REQUEST_ID]
        times = tx.count_answer(
            call.caller.id,
            request_id,
            fingerprint=request_fingerprint(message.method, message.target, message.body),
            answer=payment_id or code or "",
        )
        if times > 1:
            _EVIDENCE_LOGGER.info(
                "evidence: request %s was answered %d times with %d", printable(request_id), times, status
            )
            return
        record = make_record(
            verified,
            http_status=status,
            error_code=code,
            payment_ref=payment_id,
            qwac_chain=call.caller.qwac_chain[1:],
        )
        self._archive.append(record, *verified.chain, *call.caller.qwac_chain)

    async def _payment_status(self, call: _Call, request: Request) -> Answer:
        return await self._store.run(lambda tx: self._payments.status(self._payment(call, tx)))

    async def _payment_details(self, call: _Call, request: Request) -> Answer:
        return await self._store.run(lambda tx: self._payments.details(self._payment(call, tx)))

    async def _cancel_payment(self, call: _Call, request: Request) -> Answer:
        return await self._store.run(lambda tx: self._payments.cancel(self._payment(call, tx), tx=tx))

    def _payment(self, call: _Call, tx: Transaction) -> StoredPayment:
        product = parse_product(call.parameters["product"])
        return self._payments.of_provider(
            call.caller.id,
            product,
            call.parameters["payment_id"],
            now=self._now(),
            tx=tx,
        )


class _Call(NamedTuple):
    caller: Caller
    parameters: Mapping[str, str]


def _verified(call: _Call) -> VerifiedRequest:
    if call.caller.seal is None:
        raise ConfigurationError("web.unverified", "the endpoint requires no seal")
    return call.caller.seal


def _single(request: Request, name: str) -> str | None:
    values = request.headers.getlist(name)
    if len(values) > 1:
        raise FormatError("header.duplicate", f"the {name} header stands more than once")
    return values[0] if values else None


def _redirect_uri(request: Request) -> str | None:
    # Assumption uncovered-headers: nobody signed it.
    uri = _single(request, "tpp-redirect-uri")
    return None if uri is None else parse_redirect_uri(uri)
