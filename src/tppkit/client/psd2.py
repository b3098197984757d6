"""The PSD2 interface from the provider's side: a builder for each endpoint and each wait, for threads and asyncio.

    with Psd2Client("https://psd2.bank.example", identity=identity) as client:
        initiated = client.initiate_payment(payment)
        final = client.wait_for_payment(initiated.payment_id)

Source: PSD2 document, part A.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import replace
from datetime import date, datetime
from types import MappingProxyType
from typing import Any, TypeVar, cast
from uuid import UUID, uuid4

import httpx

from tppkit._clock import utc_now
from tppkit._encoding import shown
from tppkit._files import FilePath
from tppkit.client.answer_seals import Answers, KeepAnswer, make_answer_seals
from tppkit.client.base_url import split_base_url
from tppkit.client.calls import Call, Calls, PagedCall, Polling
from tppkit.client.connections import DEFAULT_TIMEOUT_S
from tppkit.client.credentials import KeepSent, SealCredentials
from tppkit.client.driver import AsyncClient, Method, StreamMethod, SyncClient
from tppkit.client.identity import Identity
from tppkit.errors import ConfigurationError, FormatError, TransportError
from tppkit.httpsig.components import parse_origin
from tppkit.message import Header
from tppkit.metrics import Count
from tppkit.protocol.endpoint import Endpoint
from tppkit.protocol.psd2 import (
    AccountEntry,
    AccountList,
    AuthorisationStart,
    AuthorisationStarted,
    BalanceReport,
    BookingStatus,
    Consent,
    ConsentCreated,
    ConsentRequest,
    ConsentState,
    ConsentStatus,
    PaymentDetails,
    PaymentInitiated,
    PaymentInitiation,
    PaymentProduct,
    PaymentStatus,
    Persona,
    TransactionReport,
    TransactionStatus,
    load_persona,
)
from tppkit.protocol.psd2.endpoints import (
    ACCOUNTS,
    BALANCES,
    CANCEL_PAYMENT,
    CONSENT,
    CONSENT_STATUS,
    CREATE_CONSENT,
    DELETE_CONSENT,
    INITIATE_PAYMENT,
    PAYMENT_DETAILS,
    PAYMENT_STATUS,
    START_CONSENT_AUTHORISATION,
    START_PAYMENT_AUTHORISATION,
    TRANSACTIONS,
)
from tppkit.protocol.psd2.payment import PAYMENT
from tppkit.protocol.psd2.rules import parse_consent_id, parse_psu_ip_address, parse_redirect_uri
from tppkit.seals import PROFILES, Paths
from tppkit.trust import Anchors

DOCUMENT = "document"  # the persona
MIN_POLL_INTERVAL_S = 2.0
POLL_INTERVAL_S = 3.0  # the document suggests 2 to 5 seconds
WAIT_S = 600.0

_REPEAT = (
    "it may have been carried out: to find out, send it again within the hour with the same X-Request-ID {id}, which returns the "
    "first answer and does nothing twice"
)
_ASK_STATUS = "it may have been carried out: to find out, ask for the payment's status"
_ASK_CONSENT = "it may have been carried out: to find out, ask for the consent's status"
_DECIDED = frozenset(ConsentStatus) - {ConsentStatus.RECEIVED}

_ARGUMENTS = {"psu-ip-address": "psu_ip_address", "tpp-redirect-uri": "redirect_uri", "consent-id": "consent_id"}
_NO_HEADERS: Mapping[str, str | None] = MappingProxyType({})

Q = TypeVar("Q")
A = TypeVar("A")
S = TypeVar("S")


class Psd2Calls(Calls):
    """Builds the requests of the PSD2 interface; sends nothing.

    Args:
        base_url: `https://host[:port]`, with a path prefix where a gateway needs one.
        identity: the identity whose seal signs the requests.
        new_request_id: makes X-Request-IDs.
        now: the present time, aware.
        path_prefix: what the bank's paths have in place of the persona's prefix, for example `/v1` or nothing.
        persona: how the bank differs from the document: a `Persona`, the name of a shipped one, or the file of one.
        keep: called with each sealed request before it is sent.
        answers: whether the seals of answers are verified: see `Psd2Client`.
        answer_anchors: the banks whose seals are trusted.
        keep_answer: called with each verified answer.

    Raises:
        ConfigurationError: `client.base-url`, `client.answers`, `seal.other-origin`; `seal.other-dialect`, the identity's seal is in
            another known dialect than that of the persona; those of `load_persona`.
    """

    def __init__(
        self, base_url: str, *, identity: Identity, new_request_id: Callable[[], UUID] = uuid4,
        now: Callable[[], datetime] = utc_now, path_prefix: str | None = None, persona: Persona | FilePath = DOCUMENT,
        keep: KeepSent | None = None, answers: Answers = "off", answer_anchors: Anchors | Paths | None = None,
        keep_answer: KeepAnswer | None = None,
    ) -> None:  # fmt: skip
        origin, bank = split_base_url(base_url)[0], load_persona(persona)
        found, prefix = split_base_url(origin + (bank.prefix if path_prefix is None else path_prefix))
        if found != origin:
            raise ConfigurationError("client.base-url", "path_prefix is neither empty nor a path such as /psd2/v1")
        _require_dialect(identity, bank)
        bank = bank.changed(prefix=prefix)
        self._path_prefix = prefix
        credentials = SealCredentials(identity, origin=parse_origin(origin), now=now, keep=keep)
        super().__init__(bank.interface, base_url, credentials=credentials)
        self.answer_seals = make_answer_seals(answers, answer_anchors, keep_answer, now)
        if identity.seal is not None and identity.seal.profile.request_id is not None:
            self._id_header = identity.seal.profile.request_id  # the bank may echo the header of its dialect only
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
            psu_ip_address: the payer's IP address, when present.
            redirect_uri: where the payer's browser returns after approval: https, or a scheme of the payer's application.

        Returns:
            Payment id, state RCVD, and the approval link for the payer's browser (`links.sca_redirect.href`). `sca_redirect` is None
            if the bank sent none that a browser can open.

        Raises:
            RequestRefused: the bank's answer is an error.
            OutcomeUnknown: the answer is not of this request (`answer.request-id`) or cannot be read (`answer.unreadable`), so the
                payment may have been initiated: pass the error's `request_id` again to find out.
            TransportError: there is no answer, so the payment may have been initiated; the message says how to find out.
            RemoteProtocolError: the answer is not one of this interface.
            FormatError: `header.redirect-uri`, `header.psu-ip-address`; nothing was sent.
        """
        further = _customer(psu_ip_address, redirect_uri)
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

        Returns CANC if the answer has no body. Raises as `initiate_payment`; RequestRefused has status 409 when it is too late.
        """
        call = self._call(CANCEL_PAYMENT, None, to_find_out=_ASK_STATUS, product=product.value, payment_id=payment_id)
        return replace(call, no_content=PaymentStatus(transaction_status=TransactionStatus.CANC))

    def start_payment_authorisation(
        self, payment_id: str, *, product: PaymentProduct = PaymentProduct.SEPA
    ) -> Call[AuthorisationStarted]:
        """Ask for the approval link: POST /payments/{payment-product}/{paymentId}/authorisations.

        For a bank whose persona has `approval_link = "startAuthorisation"`.

        Returns:
            The approval link for the payer's browser (`links.sca_redirect.href`).

        Raises:
            LocalProtocolError: `endpoint.unknown`, the bank sends the link with the new payment. Otherwise as `initiate_payment`.
        """
        row, body = START_PAYMENT_AUTHORISATION, AuthorisationStart()
        return self._call(row, body, product=product.value, payment_id=payment_id)

    def wait_for_payment(
        self, payment_id: str, *, product: PaymentProduct = PaymentProduct.SEPA, interval_s: float = POLL_INTERVAL_S,
        wait_s: float = WAIT_S,
    ) -> Call[TransactionStatus]:  # fmt: skip
        """Poll until the payment is final, and return its state. After a restart of the process, wait again with the same id.

        A state that the document does not list is not final.

        Args:
            payment_id: the payment.
            product: its product.
            interval_s: seconds between polls, at least 2; the document suggests 2 to 5.
            wait_s: give up after this many seconds.

        Raises:
            TransportError: `payment.not-final` after `wait_s`; otherwise as `initiate_payment`.
        """
        return _polled(
            lambda: self.payment_status(payment_id, product=product), lambda answer: answer.transaction_status,
            PAYMENT.final, interval_s, wait_s, ("payment.not-final", f"payment {payment_id}"),
        )  # fmt: skip

    def create_consent(
        self, consent: ConsentRequest, *, request_id: UUID | None = None, psu_ip_address: str | None = None,
        redirect_uri: str | None = None,
    ) -> Call[ConsentCreated]:  # fmt: skip
        """Create a consent: POST /consents. Arguments and errors are those of `initiate_payment`.

        Returns:
            Consent id, status received, and the approval link for the customer's browser (`links.sca_redirect.href`).
        """
        further = _customer(psu_ip_address, redirect_uri)
        return self._call(CREATE_CONSENT, consent, request_id, to_find_out=_REPEAT, further=further)

    def consent(self, consent_id: str) -> Call[Consent]:
        """The consent: GET /consents/{consentId}. Raises as `initiate_payment`."""
        return self._call(CONSENT, None, consent_id=consent_id)

    def consent_status(self, consent_id: str) -> Call[ConsentState]:
        """The consent's status: GET /consents/{consentId}/status. Raises as `initiate_payment`."""
        return self._call(CONSENT_STATUS, None, consent_id=consent_id)

    def delete_consent(self, consent_id: str) -> Call[None]:
        """Revoke the consent: DELETE /consents/{consentId}. Raises as `initiate_payment`."""
        return self._call(DELETE_CONSENT, None, to_find_out=_ASK_CONSENT, consent_id=consent_id)

    def start_consent_authorisation(self, consent_id: str) -> Call[AuthorisationStarted]:
        """Ask for the approval link: POST /consents/{consentId}/authorisations. As `start_payment_authorisation`."""
        return self._call(START_CONSENT_AUTHORISATION, AuthorisationStart(), consent_id=consent_id)

    def wait_for_consent(
        self, consent_id: str, *, interval_s: float = POLL_INTERVAL_S, wait_s: float = WAIT_S
    ) -> Call[ConsentStatus]:
        """Poll until the customer has decided, and return the status. After a restart of the process, wait again with the same id.

        A status that the client does not know, such as `partiallyAuthorised`, does not end the polling.

        Args:
            consent_id: the consent.
            interval_s: seconds between polls, at least 2; the document suggests 2 to 5.
            wait_s: give up after this many seconds.

        Raises:
            TransportError: `consent.not-decided` after `wait_s`; otherwise as `initiate_payment`.
        """
        return _polled(
            lambda: self.consent_status(consent_id), lambda answer: answer.status, _DECIDED,
            interval_s, wait_s, ("consent.not-decided", f"consent {consent_id}"),
        )  # fmt: skip

    def accounts(
        self, consent_id: str, *, with_balance: bool = False, psu_ip_address: str | None = None
    ) -> Call[AccountList]:
        """The accounts of a consent: GET /accounts.

        Args:
            consent_id: a valid consent.
            with_balance: ask for balances too; without the grant the accounts come without them.
            psu_ip_address: the customer's IP address, when present: the bank limits reads without it.

        Raises:
            RequestRefused: the bank's answer is an error: 401 or 403 for the consent, 429 beyond frequencyPerDay.
            FormatError: `header.psu-ip-address`, `header.consent-id`; nothing was sent. Otherwise as `initiate_payment`.
        """
        query = {"withBalance": "true"} if with_balance else {}
        return self._call(ACCOUNTS, None, query=query, further=_reading(consent_id, psu_ip_address))

    def balances(self, consent_id: str, resource_id: str, *, psu_ip_address: str | None = None) -> Call[BalanceReport]:
        """The balances of an account: GET /accounts/{resourceId}/balances. Arguments and errors are those of `accounts`."""
        further = _reading(consent_id, psu_ip_address)
        return self._call(BALANCES, None, further=further, resource_id=resource_id)

    def transactions(
        self, consent_id: str, resource_id: str, *, date_from: date, date_to: date | None = None,
        booking_status: BookingStatus = BookingStatus.BOOKED, psu_ip_address: str | None = None,
    ) -> Call[TransactionReport]:  # fmt: skip
        """The first page of an account's entries: GET /accounts/{resourceId}/transactions. Errors are those of `accounts`.

        Args:
            consent_id: a valid consent.
            resource_id: the account, as `accounts` names it.
            date_from: first booking date.
            date_to: last booking date; today if absent.
            booking_status: booked entries, pending ones, which come whatever the dates are, or both.
            psu_ip_address: the customer's IP address, when present.
        """
        query = {"dateFrom": date_from.isoformat()[:10], "bookingStatus": booking_status.value}
        if date_to is not None:
            query["dateTo"] = date_to.isoformat()[:10]
        further = _reading(consent_id, psu_ip_address)
        return self._call(TRANSACTIONS, None, query=query, further=further, resource_id=resource_id)

    def iter_transactions(
        self, consent_id: str, resource_id: str, *, date_from: date, date_to: date | None = None,
        booking_status: BookingStatus = BookingStatus.BOOKED, psu_ip_address: str | None = None,
    ) -> PagedCall[AccountEntry]:  # fmt: skip
        """The account's entries from all pages, in the bank's order; of each page the pending ones first.

        Args: those of `transactions`. An entry does not say whether it is pending, so ask for both only where that does not matter.

        Raises:
            RemoteProtocolError: `answer.link`, `answer.pages`, after the entries of the page whose link cannot be followed.
            RequestRefused, TransportError: as `accounts`, also between two pages.
        """

        def first() -> Call[TransactionReport]:
            return self.transactions(
                consent_id, resource_id, date_from=date_from, date_to=date_to, booking_status=booking_status,
                psu_ip_address=psu_ip_address,
            )  # fmt: skip

        def following(report: TransactionReport) -> Call[TransactionReport] | None:
            links = report.transactions.links
            if links is None or links.next is None:
                return None
            call, target = first(), self.linked_target(links.next.href, below=self._path_prefix)
            return replace(call, message=call.message._replace(target=target))

        return PagedCall(first(), _entries, following)

    def _call(
        self, row: Endpoint[Q, A], content: Q, request_id: UUID | None = None, *, to_find_out: str = "",
        further: Mapping[str, str | None] = _NO_HEADERS, query: Mapping[str, str] | None = None, **parameters: str,
    ) -> Call[A]:  # fmt: skip
        row = self._interface.named(row)
        rid = str(request_id or self._new_request_id())
        headers = [("X-Request-ID", rid), *[(name, value) for name, value in further.items() if value is not None]]
        if self._id_header is not None and self._id_header != self._interface.request_id:
            headers.append((self._id_header, rid))
        if row.headers:
            headers += _demanded(row, {name.lower() for name, _ in headers})
        if row.query:
            query = {**{one.name: one.default for one in row.query if one.default is not None}, **(query or {})}
            absent = [one.name for one in row.query if one.required and one.name not in query]
            if absent:
                raise FormatError("query.missing", f"this bank requires the query parameter {absent[0]}")
        advice = to_find_out.format(id=rid)
        return self.call(row, content, query, headers=headers, request_id=rid, to_find_out=advice, **parameters)


def _require_dialect(identity: Identity, bank: Persona) -> None:
    """Reject an identity that seals in another known dialect than a persona names; the document leaves it to the identity."""
    own = bank.profile if identity.seal is None else identity.seal.profile.name
    if bank.name != DOCUMENT and own != bank.profile and own in PROFILES:
        raise ConfigurationError(
            "seal.other-dialect",
            f"the identity seals in the dialect {own}, and the bank {bank.name} reads {bank.profile}: make the identity with "
            f"profile={bank.profile!r}",
        )


def _demanded(row: Endpoint[Any, Any], given: Collection[str]) -> list[Header]:
    """Return the headers that the bank requires and the caller did not give."""
    wanted = [one for one in row.headers if one.name.lower() not in given]
    absent = [one.name for one in wanted if one.default is None]
    if absent:
        named = [f"{name} ({_ARGUMENTS[name.lower()]}=)" if name.lower() in _ARGUMENTS else name for name in absent]
        raise FormatError("header.required", f"this bank requires the header {', '.join(named)}")
    return [(one.name, one.default) for one in wanted if one.default is not None]


def _customer(psu_ip_address: str | None, redirect_uri: str | None) -> Mapping[str, str | None]:
    """Headers about the customer who is to approve."""
    return {
        "PSU-IP-Address": None if psu_ip_address is None else parse_psu_ip_address(psu_ip_address),
        "TPP-Redirect-URI": None if redirect_uri is None else parse_redirect_uri(redirect_uri),
    }


def _reading(consent_id: str, psu_ip_address: str | None) -> Mapping[str, str | None]:
    """Headers of account-data calls."""
    address = None if psu_ip_address is None else parse_psu_ip_address(psu_ip_address)
    return {"Consent-ID": parse_consent_id(consent_id), "PSU-IP-Address": address}


def _entries(report: TransactionReport) -> Iterable[AccountEntry]:
    page = report.transactions
    return page.pending + page.booked


def _polled(
    ask: Callable[[], Call[A]], state: Callable[[A], S | str], final: Collection[S], interval_s: float, wait_s: float,
    late: tuple[str, str],
) -> Call[S]:  # fmt: skip
    """A call that is repeated until its state is final; `late` is the code and the subject of the error if it never is."""

    def poll() -> Call[S]:
        call = ask()
        return Call(call.row, call.message, lambda raw: cast("S", state(call.result(raw))), call.request_id)

    def not_final(last: S) -> TransportError:
        return TransportError(
            late[0], f"{late[1]} is still {shown(str(last))}; wait_s={wait_s:g} leaves no time to ask again"
        )

    polling = Polling(final.__contains__, poll, max(MIN_POLL_INTERVAL_S, interval_s), wait_s, not_final)
    return replace(poll(), polling=polling)


class _Methods:
    initiate_payment = Method(Psd2Calls.initiate_payment)
    payment_status = Method(Psd2Calls.payment_status)
    payment_details = Method(Psd2Calls.payment_details)
    cancel_payment = Method(Psd2Calls.cancel_payment)
    start_payment_authorisation = Method(Psd2Calls.start_payment_authorisation)
    wait_for_payment = Method(Psd2Calls.wait_for_payment)
    create_consent = Method(Psd2Calls.create_consent)
    consent = Method(Psd2Calls.consent)
    consent_status = Method(Psd2Calls.consent_status)
    delete_consent = Method(Psd2Calls.delete_consent)
    start_consent_authorisation = Method(Psd2Calls.start_consent_authorisation)
    wait_for_consent = Method(Psd2Calls.wait_for_consent)
    accounts = Method(Psd2Calls.accounts)
    balances = Method(Psd2Calls.balances)
    transactions = Method(Psd2Calls.transactions)
    iter_transactions = StreamMethod(Psd2Calls.iter_transactions)


class Psd2Client(_Methods, SyncClient[Psd2Calls]):
    """A bank's PSD2 interface, for threads.

    Args:
        base_url: `https://host[:port][/prefix]`.
        identity: QWAC and seal.
        path_prefix: what the bank's paths have in place of the persona's prefix, for example `/v1` or nothing.
        persona: how the bank differs from the document: a `Persona`, the name of a shipped one, or the file of one.
        timeout_s: time limit for each attempt of a call, in seconds.
        new_request_id: makes X-Request-IDs; by default `uuid4`.
        http: a client from `make_client` to use instead of a new one; it is not closed, and its own `auth` and redirects are not used.
        sleep: waits a number of seconds, between polls and before a request is repeated; by default `time.sleep`.
        clock: monotonic seconds; by default `time.monotonic`.
        keep: called with each sealed request before it is sent, to keep it as evidence. If it raises, the request is not sent, and the
            exception reaches the caller.
        answers: `required` verifies the seal of every answer before its body is read, refusals included, and rejects answers without one;
            `if-present` accepts those, so whoever controls the connection can remove a seal; `off` ignores seals. An answer that is
            rejected raises OutcomeUnknown: `answer.unsealed`, `answer.seal`.
        answer_anchors: the authorities of the bank's seals, or a `PathVerifier` or `TrustMaterial`, which may check revocation. Every bank
            with a seal of these anchors is trusted.
        keep_answer: called with each verified answer before the result is returned, to keep it as evidence. If it raises, the exception
            reaches the caller instead of the result.
        count: called after each request with `answered`, `refused` or `failed`, the code, and seconds, for metrics; see `SyncClient`.

    Example:
        with Psd2Client("https://psd2.bank.example", identity=identity) as client:
            initiated = client.initiate_payment(payment)
            final = client.wait_for_payment(initiated.payment_id)
    """

    def __init__(
        self, base_url: str, *, identity: Identity, timeout_s: float = DEFAULT_TIMEOUT_S,
        path_prefix: str | None = None, persona: Persona | FilePath = DOCUMENT,
        new_request_id: Callable[[], UUID] | None = None, http: httpx.Client | None = None,
        sleep: Callable[[float], None] | None = None, clock: Callable[[], float] | None = None, keep: KeepSent | None = None,
        answers: Answers = "off", answer_anchors: Anchors | Paths | None = None, keep_answer: KeepAnswer | None = None,
        count: Count | None = None,
    ) -> None:  # fmt: skip
        calls = Psd2Calls(
            base_url, identity=identity, new_request_id=new_request_id or uuid4, path_prefix=path_prefix, persona=persona,
            keep=keep, answers=answers, answer_anchors=answer_anchors, keep_answer=keep_answer,
        )  # fmt: skip
        super().__init__(calls, identity, timeout_s=timeout_s, http=http, sleep=sleep, clock=clock, count=count)


class AsyncPsd2Client(_Methods, AsyncClient[Psd2Calls]):
    """A bank's PSD2 interface, for asyncio. Arguments, methods and errors are those of `Psd2Client`.

    Example:
        async with AsyncPsd2Client("https://psd2.bank.example", identity=identity) as client:
            initiated = await client.initiate_payment(payment)
            final = await client.wait_for_payment(initiated.payment_id)
    """

    def __init__(
        self, base_url: str, *, identity: Identity, timeout_s: float = DEFAULT_TIMEOUT_S,
        path_prefix: str | None = None, persona: Persona | FilePath = DOCUMENT,
        new_request_id: Callable[[], UUID] | None = None, http: httpx.AsyncClient | None = None,
        sleep: Callable[[float], Awaitable[None]] | None = None, clock: Callable[[], float] | None = None, keep: KeepSent | None = None,
        answers: Answers = "off", answer_anchors: Anchors | Paths | None = None, keep_answer: KeepAnswer | None = None,
        count: Count | None = None,
    ) -> None:  # fmt: skip
        calls = Psd2Calls(
            base_url, identity=identity, new_request_id=new_request_id or uuid4, path_prefix=path_prefix, persona=persona,
            keep=keep, answers=answers, answer_anchors=answer_anchors, keep_answer=keep_answer,
        )  # fmt: skip
        super().__init__(calls, identity, timeout_s=timeout_s, http=http, sleep=sleep, clock=clock, count=count)
