"""What a client of the PSD2 interface did wrong, where the documents leave no doubt. See `tppkit.sandbox.conformance`."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Network, ip_address
from typing import Any, NamedTuple

from tppkit._cache import Cache
from tppkit._encoding import encode_base64
from tppkit.certificates import EidasCertificate
from tppkit.errors import FormatError, TppkitError
from tppkit.protocol.endpoint import Interface
from tppkit.protocol.psd2 import ConsentCreated
from tppkit.protocol.psd2.consent import CONSENT
from tppkit.protocol.psd2.endpoints import (
    ACCOUNTS,
    BALANCES,
    CONSENT_STATUS,
    CREATE_CONSENT,
    INITIATE_PAYMENT,
    PAYMENT_STATUS,
    TRANSACTIONS,
)
from tppkit.protocol.psd2.payment import PAYMENT
from tppkit.sandbox.conformance import Conformance, Example, Judge, example_of
from tppkit.sandbox.exchange import Exchange
from tppkit.seals.diagnose.bodies import changed_bodies

_KEPT = 10_000  # requests, orders or consents
_MAX_ID = 64
_MAX_REWRITTEN = 4 * 1024  # bytes of a body that is written in other ways
_HOUR = timedelta(hours=1)
_POLL_S = 1.9  # the 2 seconds of the document, less what a network may shift
_AFTER_END_S = 60.0
_PRESENT_S = 60.0  # from a request to the customer's decision on the approval page
_RETURNED_S = 10.0  # from the decision to a request that the returning customer waits for

# The rule that a refusal proves, by its code.
_REFUSED = {
    "request-id.missing": "request-id-missing",
    "request-id.reuse": "request-id-other-body",
    "signature.uncovered": "header-not-covered",
    "header.consent-id": "consent-id-missing",
    "header.psu-ip-address": "psu-ip-address-nonsense",
}
_CREATE = frozenset({INITIATE_PAYMENT.name, CREATE_CONSENT.name})
_READ = frozenset({ACCOUNTS.name, BALANCES.name, TRANSACTIONS.name})
# The parameter that names what is polled, the attribute with its state and the final states.
_POLLED: Mapping[str, tuple[str, str, Collection[str]]] = {
    PAYMENT_STATUS.name: ("payment_id", "transaction_status", PAYMENT.final),
    CONSENT_STATUS.name: ("consent_id", "status", CONSENT.final),
}
_PRIVATE_4 = [IPv4Network(one) for one in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16")]
_PRIVATE_6 = [IPv6Network(one) for one in ("fc00::/7", "fe80::/10")]


class _Poll(NamedTuple):
    """The latest answered poll of a status.

    Attributes:
        at: the virtual time.
        begun_s: real seconds.
        state: the state that was answered.
        repeated: how many polls in a row were superfluous: too fast, or after the end.
    """

    at: datetime
    begun_s: float
    state: object
    repeated: int


class _Created(NamedTuple):
    """A payment or consent whose customer comes back to the provider.

    Attributes:
        at: the virtual time.
        begun_s: real seconds.
        consent_id: the id of a consent, or None.
        missing: the example of a creation without PSU-IP-Address, or None.
    """

    at: datetime
    begun_s: float
    consent_id: str | None
    missing: Example | None


class Psd2Judge(Judge):
    """Judges requests to the PSD2 host.

    Args:
        report: counts broken rules.
        interface: the rows of the bank.
        request_id: the header of request ids, lower case.
        authorities: the bank's intermediate authorities.
        monotonic: real seconds.
    """

    hosts = ("psd2",)

    def __init__(
        self, report: Conformance, interface: Interface, *, request_id: str, authorities: Iterable[EidasCertificate] = (),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._report, self._id_header, self._monotonic = report, request_id, monotonic
        self._answers = {row.name: row.whole for row in interface.endpoints}
        self._authorities = frozenset(authority.subject for authority in authorities)
        # The hash of method and target, and the virtual time.
        self._ids: Cache[tuple[str, str], tuple[int, datetime]] = Cache(_KEPT)
        self._polls: Cache[tuple[str, str, str], _Poll] = Cache(_KEPT)
        self._created: Cache[str, _Created] = Cache(_KEPT)  # by link
        self._returned: Cache[str, tuple[datetime, float]] = Cache(_KEPT)  # by consent

    def clear(self) -> None:
        """Forget all requests."""
        for kept in (self._ids, self._polls, self._created, self._returned):
            kept.clear()

    def observe(self, exchange: Exchange) -> None:
        """Look at an exchange."""
        if exchange.error_code:
            self._judge_refusal(exchange, exchange.error_code)
        if exchange.caller is None:
            return
        values = dict(exchange.headers)  # ASGI: names in lower case
        request_id, address = values.get(self._id_header, ""), values.get("psu-ip-address")
        if exchange.path_length is not None and exchange.sent_certificates == 1 < exchange.path_length - 1:
            self._report.broken("chain-incomplete", exchange)
        self._judge_id(exchange, request_id)
        if address is not None and (fault := _address_fault(address)):
            self._report.broken(fault[0], exchange, fault[1])
        if exchange.error is not None:
            return
        if exchange.row in _POLLED and exchange.status == 200 and exchange.fault is None and not exchange.is_lost:
            self._judge_poll(exchange)
        elif exchange.row in _READ and address is None:
            self._judge_read(exchange, values.get("consent-id", ""))
        elif exchange.row in _CREATE and "tpp-redirect-uri" in values:
            self._keep_created(exchange, has_address=address is not None)

    def decided(self, link: str) -> None:
        """Take into account that the customer has decided on the approval page of this link, and goes back to the provider."""
        created = self._created.pop(link)
        if created is None:
            return
        at, now_s = self._report.now(), self._monotonic()
        if created.consent_id is not None:
            self._returned.put(created.consent_id, (at, now_s))
        if created.missing is not None and _within(_PRESENT_S, created.at, created.begun_s, at, now_s):
            self._report.count("psu-ip-address-missing", created.missing)

    def _judge_refusal(self, exchange: Exchange, code: str) -> None:
        message = exchange.error.message if isinstance(exchange.error, TppkitError) else ""
        if code == "digest.mismatch":
            if mistake := next(_rewritten(exchange), None):
                self._report.broken("digest-reserialised", exchange, f"the mistake {mistake}")
        elif code == "trust.no-path":
            # A bank with only roots: the authority that issued the certificate was not sent.
            own = exchange.certificate if exchange.sent_certificates == 1 else None
            if own is not None and EidasCertificate.from_pem(own).issuer in self._authorities:
                self._report.broken("chain-incomplete", exchange, message)
        elif code in _REFUSED and not (code == "header.consent-id" and exchange.header("consent-id")):
            self._report.broken(_REFUSED[code], exchange, message)

    def _judge_id(self, exchange: Exchange, request_id: str) -> None:
        if not 0 < len(request_id) <= _MAX_ID:
            return
        key = exchange.caller or "", request_id.lower()
        this, earlier = hash((exchange.method, exchange.target)), self._ids.get(key)
        if earlier is not None and earlier[0] != this and abs(exchange.at - earlier[1]) <= _HOUR:
            if exchange.error_code != "request-id.reuse":  # which is a rule of its own
                self._report.broken("request-id-reused", exchange)
        elif exchange.error is None:  # a refused request leaves its id unused
            self._ids.put(key, (this, exchange.at))

    def _judge_poll(self, exchange: Exchange) -> None:
        parameter, name, final = _POLLED[exchange.row or ""]
        key = exchange.caller or "", parameter, (exchange.parameters or {})[parameter]
        state = getattr(self._answer(exchange), name)
        earlier, repeated = self._polls.get(key), 0
        if earlier is not None and earlier.state == state:
            rule, limit_s = ("polled-after-end", _AFTER_END_S) if state in final else ("polled-too-fast", _POLL_S)
            if _within(limit_s, earlier.at, earlier.begun_s, exchange.at, exchange.started_s):
                repeated = earlier.repeated + 1
                if repeated > 1:  # two processes, or a customer who has just come back, may ask once more
                    self._report.broken(rule, exchange)
        self._polls.put(key, _Poll(exchange.at, exchange.started_s, state, repeated))

    def _judge_read(self, exchange: Exchange, consent_id: str) -> None:
        returned = self._returned.get(consent_id)
        if returned is not None and _within(_RETURNED_S, *returned, exchange.at, exchange.started_s):
            self._report.broken("psu-ip-address-missing", exchange)

    def _keep_created(self, exchange: Exchange, *, has_address: bool) -> None:
        try:
            made = self._answer(exchange)
        except FormatError:  # a requested fault
            return
        if made.links.sca_redirect is None:
            return
        consent_id = made.consent_id if isinstance(made, ConsentCreated) else None
        missing = None if has_address else example_of(exchange)
        token = made.links.sca_redirect.href.rpartition("/")[2]
        self._created.put(token, _Created(exchange.at, exchange.started_s, consent_id, missing))

    def _answer(self, exchange: Exchange) -> Any:
        """Read an answer, which may be in the form of another bank than the document's."""
        return self._answers[exchange.row or ""].read(exchange.answer_body, tolerant=True)


def _within(seconds: float, at: datetime, begun_s: float, later: datetime, now_s: float) -> bool:
    """Whether less time has passed by both clocks: in tests the virtual clock moves alone, and it may be frozen."""
    return now_s - begun_s < seconds and (later - at).total_seconds() < seconds


@lru_cache(maxsize=1024)
def _address_fault(text: str) -> tuple[str, str] | None:
    """Return the rule that an address breaks and why, or None. A text that is no address is refused, with a rule of its own."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    address = getattr(address, "ipv4_mapped", None) or address
    is_4 = isinstance(address, IPv4Address)
    if address.is_unspecified or address.is_multicast or (is_4 and address.is_reserved):
        return "psu-ip-address-nonsense", f"{address} is unspecified, multicast or reserved"
    if address.is_loopback or any(address in network for network in (_PRIVATE_4 if is_4 else _PRIVATE_6)):
        return "psu-ip-address-private", f"{address} is loopback or of a private network"
    return None


def _rewritten(exchange: Exchange) -> Iterator[str]:
    """Yield how the same JSON was written whose hash is in the digest of a request."""
    digests = [value for name, value in exchange.headers if name.lower().endswith("digest")]
    body = exchange.body
    if not digests or len(body) != exchange.body_size or len(body) > _MAX_REWRITTEN:
        return
    for mistake, changed in changed_bodies(body):
        if mistake.startswith(("json-", "body-newline")):
            for hashed in (hashlib.sha256(changed), hashlib.sha512(changed)):
                if any(encode_base64(hashed.digest()) in value for value in digests):
                    yield mistake
