"""The PSD2 host: an ASGI application behind the seal middleware that decides, keeps the evidence and answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tppkit._clock import Clock
from tppkit.certificates import OrganizationPolicy
from tppkit.errors import FormatError, TppkitError
from tppkit.evidence import EvidenceArchive, make_record
from tppkit.protocol.psd2.endpoints import CANCEL_PAYMENT, INITIATE_PAYMENT, PAYMENT_DETAILS, PAYMENT_STATUS
from tppkit.protocol.psd2.errors import Refusal, refusal_for
from tppkit.protocol.psd2.models import MAX_BODY_BYTES
from tppkit.protocol.psd2.rules import parse_redirect_uri, require_json
from tppkit.sandbox.psd2.payments import Answer, Payments, parse_product
from tppkit.sandbox.revocations import FolderRevocations
from tppkit.sandbox.store import Store, StoredPayment, Transaction
from tppkit.seals import SealPolicy, VerifiedRequest
from tppkit.trust import PathVerifier, TrustedPath
from tppkit.web import (
    AdmittedRequest,
    AsgiSource,
    PeerCertificate,
    QwacPolicy,
    SealGate,
    SealMiddleware,
    admitted_request,
    psd2_requirement,
    verified_request,
)


class _CurrentQwacs(QwacPolicy):
    """Believes QWACs by the revocation lists as they are now."""

    def __init__(self, paths: PathVerifier, revocations: FolderRevocations, organizations: OrganizationPolicy) -> None:
        super().__init__(paths, organizations=organizations)
        self._revocations = revocations

    def verify(self, peer: PeerCertificate, *, at: datetime) -> TrustedPath:
        self._revocations.refresh()
        return super().verify(peer, at=at)


def _told(error: TppkitError) -> Refusal:
    # With every value, and what is wrong with the folder of certificates: whoever tests against a sandbox wants to know.
    if error.code == "pki.unusable":
        return Refusal(503, "SERVICE_UNAVAILABLE", f"{error.message} ({error.code})")
    return refusal_for(error)


class Psd2Host:
    """The PSD2 interface.

    Args:
        payments: the bank's payments.
        store: the database.
        archive: keeps every verified seal.
        paths: believes certificates.
        revocations: what `paths` knows of revocation; looked at anew with each request.
        now: the sandbox's clock.
        organizations: the organizationIdentifiers that are accepted, of website certificates and seals.
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
        organizations: OrganizationPolicy,
    ) -> None:
        self._payments = payments
        self._store = store
        self._archive = archive
        self._gate = SealGate(
            qwacs=_CurrentQwacs(paths, revocations, organizations),
            seals=SealPolicy(paths, organizations=organizations),
            now=now,
            requirement=psd2_requirement,
            max_body_bytes=MAX_BODY_BYTES,
            tell=_told,
        )
        self._door = SealMiddleware(self._answer, gate=self._gate)
        self._handlers: Mapping[str, Callable[[AdmittedRequest, Request], Answer]] = {
            INITIATE_PAYMENT.name: self._initiate_payment,
            PAYMENT_STATUS.name: self._payment_status,
            PAYMENT_DETAILS.name: self._payment_details,
            CANCEL_PAYMENT.name: self._cancel_payment,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        await self._door(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request, admitted = Request(scope), admitted_request(scope)
        try:
            answer = self._handlers[_endpoint(admitted)](admitted, request)
            headers = {"Cache-Control": "no-store", "X-Request-ID": _single(request, "x-request-id") or ""}
            response = Response(answer.body, answer.status, headers, "application/json")
        except Exception as e:  # noqa: BLE001  # the last resort of a server: told to the log, and as 500 without details
            refused = self._gate.refuse(AsgiSource(scope), e)
            response = Response(refused.body, refused.status, dict(refused.headers))
        await response(scope, receive, send)

    def _initiate_payment(self, admitted: AdmittedRequest, request: Request) -> Answer:
        verified = verified_request(request.scope)
        try:
            with self._store.transaction() as tx:
                product = parse_product(admitted.requirement.parameters["product"])
                require_json(_single(request, "content-type"))
                redirect_uri = _redirect_uri(request)
                answer = self._payments.initiate(
                    verified,
                    product,
                    organization=admitted.organization_identifier,
                    redirect_uri=redirect_uri,
                    now=admitted.at,
                    tx=tx,
                )
                self._keep(admitted, verified, answer.status, None, answer.payment_id)
                return answer
        except TppkitError as e:
            refusal = refusal_for(e)
            if refusal.status < 500:
                self._keep(admitted, verified, refusal.status, refusal.code, None)
            raise

    def _keep(
        self,
        admitted: AdmittedRequest,
        verified: VerifiedRequest,
        status: int,
        code: str | None,
        payment_id: str | None,
    ) -> None:
        record = make_record(
            verified,
            http_status=status,
            error_code=code,
            payment_ref=payment_id,
            clock_source="sandbox",
            qwac_chain=admitted.qwac_path.chain[1:],
        )
        self._archive.append(record, *verified.chain, *admitted.qwac_path.chain)

    def _payment_status(self, admitted: AdmittedRequest, request: Request) -> Answer:
        with self._store.transaction() as tx:
            return self._payments.status(self._payment(admitted, tx))

    def _payment_details(self, admitted: AdmittedRequest, request: Request) -> Answer:
        with self._store.transaction() as tx:
            return self._payments.details(self._payment(admitted, tx))

    def _cancel_payment(self, admitted: AdmittedRequest, request: Request) -> Answer:
        with self._store.transaction() as tx:
            return self._payments.cancel(self._payment(admitted, tx), tx=tx)

    def _payment(self, admitted: AdmittedRequest, tx: Transaction) -> StoredPayment:
        product = parse_product(admitted.requirement.parameters["product"])
        return self._payments.of_provider(
            admitted.organization_identifier,
            product,
            admitted.requirement.parameters["payment_id"],
            now=admitted.at,
            tx=tx,
        )


def _endpoint(admitted: AdmittedRequest) -> str:
    return admitted.requirement.endpoint.name if admitted.requirement.endpoint else ""


def _single(request: Request, name: str) -> str | None:
    values = request.headers.getlist(name)
    if len(values) > 1:
        raise FormatError("header.duplicate", f"the {name} header stands more than once")
    return values[0] if values else None


def _redirect_uri(request: Request) -> str | None:
    # Assumption uncovered-headers: nobody signed it.
    uri = _single(request, "tpp-redirect-uri")
    return None if uri is None else parse_redirect_uri(uri)
