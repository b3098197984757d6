"""The legacy interface from the provider's side, for threads and asyncio.

    with LegacyClient(legacy_url, api_key=os.environ["API_KEY"]) as client:
        token = client.request_access(AccessKind.ACCOUNTS, "+37060000000")
        ...  # the callback says that the customer has consented
        client.balance(token)["EUR"]

Source: PSD2 document, part B.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping
from decimal import Decimal
from enum import StrEnum

import httpx
from pydantic import SecretStr

from tppkit._locals import without_locals
from tppkit.certificates.files import CertificateSource
from tppkit.client.calls import Call, Calls
from tppkit.client.connections import DEFAULT_TIMEOUT_S
from tppkit.client.credentials import ApiKeyCredentials
from tppkit.client.driver import AsyncClient, Method, SyncClient
from tppkit.client.tls_context import NoCertificate
from tppkit.errors import RequestRefused
from tppkit.metrics import Count
from tppkit.protocol.legacy import PaymentOrder, Transaction
from tppkit.protocol.legacy.endpoints import (
    BALANCE,
    LEGACY,
    PAY,
    REQUEST_ACCOUNT_ACCESS,
    REQUEST_PAYMENT_ACCESS,
    TRANSACTION_LIST,
)
from tppkit.protocol.legacy.models import AccessRequest
from tppkit.protocol.legacy.rules import require_token

_ACCESS_ADVICE = (
    "the customer may have been asked: wait for the callback, or request access again with the same token, which is the"
    " error's request_id"
)
_PAYMENT_ADVICE = (
    "it may have been carried out: send the same order again with uuid {uuid}, which cannot pay twice; its callback has the"
    " outcome, and that the transaction list lacks it proves nothing"
)
_ACCOUNT_CODES = (None, "ACCOUNT_NOT_FOUND")  # the document shows no error body


class Unauthorized(RequestRefused):
    """The service answered 401: the API key is unknown, or the token does not (or no longer) grant the access."""


class AccountUnknown(RequestRefused):
    """The service answered 400: the account is unknown, or the answer has no code."""


class AccessKind(StrEnum):
    """What access is requested for."""

    ACCOUNTS = "ais"
    PAYMENTS = "pis"


_ACCESS = {AccessKind.ACCOUNTS: REQUEST_ACCOUNT_ACCESS, AccessKind.PAYMENTS: REQUEST_PAYMENT_ACCESS}


def make_token() -> str:
    """A new access token or uuid: 32 hexadecimal digits from the machine's randomness."""
    return secrets.token_hex(16)


class LegacyCalls(Calls):
    """Builds the requests of the legacy interface; sends nothing.

    Args:
        base_url: `https://host[:port]` of the test or the live service, with a path prefix where a gateway needs one.
        api_key: the key of the same service.
        new_token: makes access tokens and uuids.

    Raises:
        ConfigurationError: `client.base-url`, `credentials.malformed`.
    """

    @without_locals
    def __init__(self, base_url: str, *, api_key: SecretStr | str, new_token: Callable[[], str] = make_token) -> None:
        super().__init__(LEGACY, base_url, credentials=ApiKeyCredentials(api_key))
        self._new_token = new_token

    def request_access(self, kind: AccessKind, acc: str, *, token: str | None = None) -> Call[str]:
        """Ask a customer for access: POST /ais/{access_token} or /pis/{access_token}.

        Args:
            kind: to account information or to payments.
            acc: the customer's account, IBAN or phone number.
            token: the access token; absent: a new one. Give the same one again to repeat the same request.

        Returns:
            The access token. It is of use when the callback has echoed it.

        Raises:
            AccountUnknown: the service has no such account.
            Unauthorized: the API key is not the service's.
            RequestRefused: the answer is another error: 409, the token was used for another request.
            OutcomeUnknown, TransportError: the customer may have been asked; the error's `request_id` is the token.
            FormatError: `token.malformed`, `model.invalid`; nothing was sent.
        """
        token = require_token(self._new_token() if token is None else token, "access token")
        body = AccessRequest.from_object({"acc": acc})
        return _named(self.call(_ACCESS[kind], body, to_find_out=_ACCESS_ADVICE, access_token=token), token)

    def balance(self, token: str) -> Call[Mapping[str, Decimal]]:
        """The balance by currency, in the major unit: GET /ais/{access_token}/BALANCE.

        Raises:
            Unauthorized: the token gives no access (not yet, or not any more), or the API key is not the service's.
            RequestRefused: the answer is another error.
            TransportError: there is no answer.
            RemoteProtocolError, FormatError: the answer is not one of this interface.
            FormatError: `token.malformed`; nothing was sent.
        """
        return self.call(BALANCE, None, access_token=require_token(token, "access token"))

    def transactions(self, token: str) -> Call[tuple[Transaction, ...]]:
        """The transactions of the account, the newest first: GET /ais/{access_token}/LIST. Errors: see `balance`.

        They do not say what became of a request: payments that are undecided, declined or failed are absent, and ids are not uuids.
        """
        return self.call(TRANSACTION_LIST, None, access_token=require_token(token, "access token"))

    def pay(self, token: str, order: PaymentOrder, *, uuid: str | None = None) -> Call[str]:
        """Request a payment: POST /pis/{access_token}/TX/{uuid}. It is sent once, and never repeated by this client.

        Args:
            token: of a granted access to payments.
            order: what to pay, and to whom.
            uuid: names the payment; absent: a new one. Give the same one again, with the same order, to repeat the same request.

        Returns:
            The uuid. The outcome comes by callback, to the callback address with this uuid.

        Raises:
            OutcomeUnknown, TransportError: no answer says whether the payment was requested, so it may be carried out. Give the same order
                and the error's `request_id` as uuid again; a new uuid may pay twice.
            AccountUnknown: the receiver's account, or that of the access, is unknown.
            Unauthorized: see `balance`.
            RequestRefused: the answer is another error: 409, the uuid was used for another payment.
            FormatError: `token.malformed`; nothing was sent.
        """
        uuid = require_token(self._new_token() if uuid is None else uuid, "uuid")
        token, advice = require_token(token, "access token"), _PAYMENT_ADVICE.format(uuid=uuid)
        return _named(self.call(PAY, order, to_find_out=advice, access_token=token, uuid=uuid), uuid)

    def refusal_class(self, status: int, code: str | None) -> type[RequestRefused]:
        """The class of the error for a refusal. Source: PSD2 document, part B section 7."""
        if status == 401:
            return Unauthorized
        return AccountUnknown if status == 400 and code in _ACCOUNT_CODES else RequestRefused


def _named(call: Call[None], name: str) -> Call[str]:
    """The call, with its token or uuid as result and `request_id`."""
    return Call(call.row, call.message, lambda _: name, name, call.to_find_out)


class _Methods:
    request_access = Method(LegacyCalls.request_access)
    balance = Method(LegacyCalls.balance)
    transactions = Method(LegacyCalls.transactions)
    pay = Method(LegacyCalls.pay)


class LegacyClient(_Methods, SyncClient[LegacyCalls]):
    """The legacy interface of a service, for threads. The test and the live service each need a client.

    Args:
        base_url: `https://host[:port][/prefix]`.
        api_key: of the same service; as `SecretStr`, it is not among the variables of a traceback either.
        server_anchors: path, PEM or DER bytes, or certificates of the server's authorities; None: the system's.
        timeout_s: time limit for each attempt of a call, in seconds.
        new_token: makes access tokens and uuids; by default `make_token`.
        http: a client from `make_client(NoCertificate())` to use instead of a new one; it is not closed.
        sleep: waits a number of seconds, before a read is repeated; by default `time.sleep`.
        clock: monotonic seconds; by default `time.monotonic`.
        count: called after each request with `answered`, `refused` or `failed`, the code, and seconds, for metrics; see `SyncClient`.

    Raises:
        ConfigurationError, FormatError: `client.base-url`, `credentials.malformed`, `trust.no-anchors`, `certificate.*`, `file.*`.

    Example:
        with LegacyClient(legacy_url, api_key=os.environ["API_KEY"]) as client:
            uuid = client.pay(token, PaymentOrder(acc="+37060000000", amts={"EUR": Decimal("12.50")}))
    """

    @without_locals
    def __init__(
        self, base_url: str, *, api_key: SecretStr | str, server_anchors: CertificateSource | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S, new_token: Callable[[], str] | None = None, http: httpx.Client | None = None,
        sleep: Callable[[float], None] | None = None, clock: Callable[[], float] | None = None,
        count: Count | None = None,
    ) -> None:  # fmt: skip
        calls = LegacyCalls(base_url, api_key=api_key, new_token=new_token or make_token)
        tls = NoCertificate(server_anchors=server_anchors)
        super().__init__(calls, tls, timeout_s=timeout_s, http=http, sleep=sleep, clock=clock, count=count)


class AsyncLegacyClient(_Methods, AsyncClient[LegacyCalls]):
    """The legacy interface of a service, for asyncio. Arguments, methods and errors are those of `LegacyClient`.

    Example:
        async with AsyncLegacyClient(legacy_url, api_key=os.environ["API_KEY"]) as client:
            balance = await client.balance(token)
    """

    @without_locals
    def __init__(
        self, base_url: str, *, api_key: SecretStr | str, server_anchors: CertificateSource | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S, new_token: Callable[[], str] | None = None, http: httpx.AsyncClient | None = None,
        sleep: Callable[[float], Awaitable[None]] | None = None, clock: Callable[[], float] | None = None,
        count: Count | None = None,
    ) -> None:  # fmt: skip
        calls = LegacyCalls(base_url, api_key=api_key, new_token=new_token or make_token)
        tls = NoCertificate(server_anchors=server_anchors)
        super().__init__(calls, tls, timeout_s=timeout_s, http=http, sleep=sleep, clock=clock, count=count)
