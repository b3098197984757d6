"""Decide about a request by its QWAC and its seal, step by step, for ASGI and WSGI alike. Only revocation checks may open connections.

gate = SealGate(PSD2, qwacs=QwacPolicy(paths), seals=SealPolicy(paths))
route = gate.route(source)
pending = gate.open(source, route.row)
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from datetime import datetime
from time import monotonic
from typing import Any
from urllib.parse import unquote_to_bytes

from tppkit._clock import Clock, as_utc, utc_now
from tppkit._encoding import shown
from tppkit._handlers import call_count, require_run
from tppkit._text import printable
from tppkit.certificates import EidasCertificate
from tppkit.certificates.rules import first_error
from tppkit.codes import CODES
from tppkit.errors import CertificateRejected, ConfigurationError, FormatError, TppkitError, TransportError, code_of
from tppkit.httpsig.signing_string import message_components
from tppkit.message import Answer, Message
from tppkit.metrics import Count
from tppkit.protocol.endpoint import Auth, Endpoint, Interface, Route
from tppkit.protocol.refusals import FAILURE, Refusal
from tppkit.protocol.wire import Nothing
from tppkit.seals import Seal, SealPolicy, VerifiedRequest, verify_request, verify_request_head
from tppkit.web.answers import AnswerSeals
from tppkit.web.caller import Caller, QwacPolicy, peer_certificate
from tppkit.web.log import LOG, Fields, make_fields, write_line
from tppkit.web.proxies import TrustedProxy, client_address
from tppkit.web.replay import BODY_TIME, ReplayGuard
from tppkit.web.sources import Source, too_large

MAX_BODY_BYTES = 64 * 1024

_LENGTH, _ENCODING, _CODING = "content-length", "content-encoding", "transfer-encoding"
# gunicorn takes the mount from the first, and a WSGI application may mistake both for values of its server about the path.
_ROUTE_HEADERS = frozenset({"script-name", "path-info"})
_MAX_SHOWN = 2048
VerifyBody = Callable[[bytes], VerifiedRequest]


class SealGate:
    """Admit requests from trusted callers, with a valid seal where the endpoint requires one.

    Args:
        interface: the endpoints, and the form of refusals; `seal_every_request` makes one for your own routes.
        qwacs: verifies the certificate of the connection.
        seals: the requirements for seals; its profile names the header of the request id.
        now: the clock.
        trusted_proxies: proxies that forward the certificate of the connection.
        address_is_raw: see `peer_certificate`.
        mount: the beginning of every path that the server or an outer application removes before the application routes, for
            example `/bank`. Requests with another mount are rejected.
        max_body_bytes: a longer body is rejected; a body up to this length is held in memory.
        brief: send only the code and its general meaning to the peer. False sends the full reason, which suits a sandbox.
        replay: detects sealed requests that were received before; used by the middlewares.
        answers: the bank's seal, with one of `ANSWER_PROFILES`. The middlewares then hold each answer, at most 4 MiB, and seal it for its
            request, refusals and repeated answers too. If that fails, they answer 500 without a seal. The refusal of a request that is too
            malformed for a seal to name it is not sealed.
        count: called with the verdict about each request of the middlewares: `admitted`, `refused` (4xx) or `failed` (5xx), the code of
            the error, and the seconds of the gate's own work, without waiting for the body and without the application. Also with
            `unsealed`, the code and no seconds for each answer that was sent without the seal of `answers`.
        allow_old_date: admit a seal whose covered Date is too old or too new, with the reason as `VerifiedRequest.date_fault`, because
            the application looks request ids up itself. The middlewares do so with `replay`, and need no permission.

    Raises:
        ConfigurationError: `replay.no-request-id`, a seal of this profile may cover no request id; `web.setting`, `qwacs` or `seals` is
            no such policy, `max_body_bytes` is negative, `mount` is malformed, or a seal outlives the window of `replay`;
            `seal.for-answers`, the profile of `answers` seals requests; `callback.function`, `count` is a coroutine function.

    Example:
        gate = SealGate(PSD2, qwacs=QwacPolicy(paths), seals=SealPolicy(paths))
        app = SealMiddleware(app, gate=gate)
    """

    def __init__(
        self,
        interface: Interface,
        *,
        qwacs: QwacPolicy,
        seals: SealPolicy,
        now: Clock = utc_now,
        trusted_proxies: Sequence[TrustedProxy] = (),
        address_is_raw: bool = False,
        mount: str = "",
        max_body_bytes: int = MAX_BODY_BYTES,
        brief: bool = True,
        replay: ReplayGuard | None = None,
        allow_old_date: bool = False,
        answers: Seal | None = None,
        count: Count | None = None,
    ) -> None:
        require_run(awaited=False, count=count)
        for name, value, kind in (("qwacs", qwacs, QwacPolicy), ("seals", seals, SealPolicy)):
            if not isinstance(value, kind):
                message = f"{name} is a {type(value).__name__}: give {kind.__name__}(...)"
                raise ConfigurationError("web.setting", message)
        if max_body_bytes < 0:
            raise ConfigurationError("web.setting", f"max_body_bytes is {max_body_bytes}")
        if mount and (not mount.startswith("/") or mount.endswith("/") or not mount.isascii()):
            raise ConfigurationError("web.setting", f"the mount {shown(mount)} must begin with / and end without")
        profile = seals.profile
        self._id_required = profile.request_id in profile.demanded
        if replay is not None and not self._id_required:
            raise ConfigurationError("replay.no-request-id", f"a seal of the profile {profile.name} may cover no id")
        if replay is not None:
            replay.require_window(seals)
        self.max_body_bytes = max_body_bytes
        self.replay = replay
        self._allow_old_date = allow_old_date
        self._count = count
        self._interface = interface
        self._qwacs = qwacs
        self._seals = seals
        self._clock = now
        self._proxies = tuple(trusted_proxies)
        self._address_is_raw = address_is_raw
        self._mount = mount
        # Read now: at the first refusal the process may have no file descriptor left.
        self._explained = dict(CODES) if brief else {}
        self.answers = None if answers is None else AnswerSeals(answers, now=self.now, failed=self._not_sealed)
        self._id_header = profile.request_id or interface.request_id or ""
        self._single = frozenset({_LENGTH, _ENCODING, _CODING, self._id_header})
        self._hyphenated = self._single | seals.demands.singletons | seals.demands.sealing

    def now(self) -> datetime:
        """The time, aware UTC."""
        return as_utc(self._clock())

    def enter(
        self, source: Source, *, allow_old_date: bool = False, visit: Visit | None = None
    ) -> tuple[Route, SealPending]:
        """Route a request and verify its head; see `open`. Unauthenticated callers do not learn which paths exist.

        Raises:
            TppkitError: see `route` and `open`.
        """
        try:
            route = self.route(source)
        except TppkitError as e:
            path = _target(source).removeprefix(self._mount)
            row = self._interface.row_of(source.method, path) if e.code.startswith("query.") else None
            self.open(source, row, visit=visit)
            raise
        return route, self.open(source, route.row, allow_old_date=allow_old_date, visit=visit)

    def route(self, source: Source) -> Route:
        """Find the endpoint of a request, and check that the application will route it by the same target.

        Seal and role are checked against the target on the wire, but the application routes by the path that the server decoded. Both
        must be the same path and query, and the mount must be the configured one.

        Raises:
            FormatError: `message.rerouted`, `message.malformed`, `message.no-raw-path`, `query.*`.
            LocalProtocolError: `endpoint.unknown`, `endpoint.method`.

        Source: PEP 3333, environ variables; the ASGI specification, HTTP connection scope.
        """
        if claims := _ROUTE_HEADERS.intersection(source.header_names()):
            raise FormatError("message.rerouted", f"the request has a header that can change its path: {min(claims)}")
        if source.mount != self._mount:
            raise FormatError(
                "message.rerouted", f"the application is mounted at {shown(source.mount)}, not at {shown(self._mount)}"
            )
        target = source.raw_target().decode("latin-1")
        path, _, query = target.partition("?")
        if source.decoded_target() != (unquote_to_bytes(path.encode("latin-1")), query):
            raise FormatError("message.rerouted", f"the application sees another path or query than {shown(target)}")
        # A percent-encoded mount (/b%61nk) is rejected too.
        if not (path + "/").startswith(self._mount + "/"):
            raise FormatError("message.rerouted", f"{shown(target)} is not below the mount {shown(self._mount)}")
        return self._interface.find(source.method, target.removeprefix(self._mount))

    def open(
        self,
        source: Source,
        row: Endpoint[Any, Any] | None,
        *,
        allow_old_date: bool = False,
        visit: Visit | None = None,
    ) -> SealPending:
        """Judge the head of a request.

        Args:
            source: the request as the server passes it.
            row: the endpoint; None to authenticate the caller only.
            allow_old_date: as that of the gate, for this request; pass it to `ReplayGuard.admit`.
            visit: learns the organisation of the QWAC.

        Raises:
            TppkitError: see `peer_certificate`, `QwacPolicy.verify`, `require_role` and `verify_request_head`;
                `header.duplicate`, `header.underscore`, `request-id.*`, `message.*`.
            ConfigurationError: `web.setting`, the endpoint requires neither QWAC nor seal.
        """
        # 1. The certificate of the connection is a trusted QWAC.
        # 2. It has the role of the endpoint.
        # 3. No header has a misleading name. The request id is present once and well-formed; the body is framed once and within the limit.
        # 4. The body is not encoded, and the seal is valid for the head, unless the dialect signs the body alone.
        caller = self._caller(source, self.now())  # 1
        if visit is not None:
            visit.organisation = caller.id
        if row is None:
            return SealPending(caller, None, self.max_body_bytes, None, now=self.now)
        if row.auth not in (Auth.QWAC, Auth.SEAL):
            raise ConfigurationError("web.setting", f"{row.name} requires {row.auth}, which this gate cannot judge")
        require_role(caller.qwac_chain[0], row)  # 2
        head = source.head()
        values, doubled = message_components(head)
        for name in doubled:
            if name in self._single:
                raise FormatError("header.duplicate", f"the {name} header appears more than once")
        self._check_names(values)
        self._check_head(values)  # 3
        length = int(values[_LENGTH]) if _LENGTH in values else None
        allow_old_date |= self._allow_old_date
        body = self._open_seal(head, values, caller, allow_old_date) if row.auth is Auth.SEAL else None  # 4
        return SealPending(caller, body, self.max_body_bytes, length, now=self.now)

    def admit(self, visit: Visit) -> None:
        """Log an admitted request (`tppkit.web`, DEBUG), and count it."""
        if LOG.isEnabledFor(logging.DEBUG):
            fields = self._fields(visit.source, "", visit.organisation)
            shown = fields["method"], fields["target"], fields["peer"] or "?"
            write_line(logging.DEBUG, fields, "%s %s from %s: admitted", *shown)
        call_count(self._count, LOG, "admitted", "", visit.seconds)

    def refuse(self, source: Source, error: Exception, *, visit: Visit | None = None) -> Answer:
        """Log a rejected request, and return the answer to it.

        The logger is `tppkit.web`: WARNING for faults of the caller, ERROR with the traceback for our own.

        Args:
            source: the request as the server passes it.
            error: the reason; any other exception than a `TppkitError` gives 500 without details.
            visit: the request is counted too; None if the gate has admitted it, and the application refuses it.
        """
        caller = source.caller
        organisation = visit.organisation if visit else caller.id if isinstance(caller, Caller) else ""
        refusal, code = self._refusal(error), code_of(error)
        failed = refusal.status >= 500
        fields = self._fields(source, code, organisation)
        write_line(
            logging.ERROR if failed else logging.WARNING, fields, "%s %s from %s: %d %s: %s", printable(source.method),
            printable(_target(source)[:_MAX_SHOWN]), fields["peer"] or "?", refusal.status, refusal.code, error,
            error=error if failed else None,
        )  # fmt: skip
        if visit is not None:
            call_count(self._count, LOG, "failed" if failed else "refused", code, visit.seconds)
        return self.answer(source, refusal)

    def answer(self, source: Source, refusal: Refusal) -> Answer:
        """A refusal in the form of the interface, with the request id if it is well-formed."""
        headers = [("Content-Type", "application/json"), ("Cache-Control", "no-store")]
        if request_id := self._request_id(source):
            headers.append((_header_case(self._id_header), request_id))
        if refusal.status == 405:  # RFC 9110 section 15.5.6
            path = _target(source).partition("?")[0].removeprefix(self._mount)
            headers.append(("Allow", ", ".join(self._interface.methods(path))))
        body = self._interface.refusals.write(refusal)
        return Answer(refusal.status, (*headers, ("Content-Length", str(len(body)))), body)

    def _not_sealed(self, source: Source, error: Exception, organisation: str, is_of_request: bool) -> Answer:
        """Log and count an answer without a seal, and return the failure that is sent instead unless the request is the cause."""
        code = code_of(error)
        fields = self._fields(source, code, organisation)
        text, level = "the answer could not be sealed", logging.ERROR
        if is_of_request:
            text, level = "a refusal was sent without a seal", logging.WARNING
        write_line(
            level, fields, f"%s %s from %s: {text}: %s", fields["method"], fields["target"], fields["peer"] or "?", error,
            error=None if is_of_request else error,
        )  # fmt: skip
        call_count(self._count, LOG, "unsealed", code, 0.0)
        return self.answer(source, FAILURE)

    def _request_id(self, source: Source) -> str:
        """Return the request id if it is well-formed, otherwise an empty text."""
        ids = source.header_values(self._id_header)
        with suppress(FormatError):
            if len(ids) == 1 and self._interface.parse_request_id(ids[0]):
                return ids[0]
        return ""

    def _fields(self, source: Source, code: str, organisation: str) -> Fields:
        return make_fields(
            interface=self._interface.name, method=source.method, target=_target(source), code=code, organisation=organisation,
            peer=client_address(source, self._proxies, address_is_raw=self._address_is_raw), request_id=self._request_id(source),
        )  # fmt: skip

    def _refusal(self, error: Exception) -> Refusal:
        if not isinstance(error, TppkitError):
            return FAILURE
        refusal = self._interface.refusals.refusal_for(error)
        row = self._explained.get(error.code)
        if refusal.status >= 500 or row is None:
            return refusal
        return replace(refusal, text=f"{row.meaning.rstrip('.')} ({error.code})")

    def _caller(self, source: Source, at: datetime) -> Caller:
        peer = peer_certificate(source, trusted_proxies=self._proxies, address_is_raw=self._address_is_raw)
        if peer.ignored:
            ignored = ", ".join(peer.ignored)
            fields = self._fields(source, "certificate.header-ignored", "")
            write_line(logging.WARNING, fields, "ignored from %s: %s", printable(str(source.address())), ignored)
        try:
            path = self._qwacs.verify(peer, at=at)
        except CertificateRejected as e:
            if not e.code.startswith("key."):
                raise
            # The error table reports key.* as a fault of the signature, but this is the key of the QWAC.
            code = "certificate.weak-key" if e.code == "key.weak" else "certificate.unusual-key"
            raise CertificateRejected(code, e.message, clause=e.clause, findings=e.findings) from e
        qwac = path.chain[0]
        identifier = qwac.organization_identifier
        return Caller(identifier.text if identifier else "", at, qwac.roles, path, peer)

    def _check_names(self, values: Mapping[str, str]) -> None:
        """Reject names with underscores that a WSGI application would read as those of other headers."""
        for name in [name for name in values if "_" in name]:
            read = name.replace("_", "-")
            if read in values or read in self._hyphenated or read.startswith(self._seals.profile.prefixes):
                raise FormatError("header.underscore", f"an application may read {shown(name)} as {shown(read)}")

    def _check_head(self, values: Mapping[str, str]) -> None:
        request_id = values.get(self._id_header)
        if request_id is not None:
            self._interface.parse_request_id(request_id)
        elif self._id_required:
            raise FormatError("request-id.missing", f"the {_header_case(self._id_header)} header is absent")
        length = values.get(_LENGTH, "0")
        if not (length.isascii() and length.isdigit()):
            raise FormatError("message.malformed", f"the Content-Length {shown(length)} is not a number")
        if len(length) > 18 or int(length) > self.max_body_bytes:
            raise too_large(self.max_body_bytes)
        coding = values.get(_CODING)
        if coding is not None and (coding.lower() != "chunked" or _LENGTH in values):
            # RFC 9112 section 6.3: other software could read this body as another request.
            beside = " in addition to a Content-Length" if _LENGTH in values else ""
            raise FormatError("message.malformed", f"the Transfer-Encoding is {shown(coding)}{beside}")

    def _open_seal(self, head: Message, values: Mapping[str, str], caller: Caller, allow_old_date: bool) -> VerifyBody:
        if values.get(_ENCODING):
            # The seal covers the encoded body, not the decoded one.
            raise FormatError("message.content-encoding", "a sealed body has a Content-Encoding")
        qwac, at, seals = caller.qwac_chain[0], caller.at, self._seals
        if seals.profile.covers_body:  # then nothing of the seal can be verified before
            return lambda body: verify_request(head._replace(body=body), qwac=qwac, at=at, policy=seals)
        return verify_request_head(head, qwac=qwac, at=at, policy=seals, allow_old_date=allow_old_date).verify_body


class Visit:
    """A request on its way through a gate.

    Args:
        source: the request as the server passes it.

    Attributes:
        source: as given.
        organisation: organizationIdentifier of the QWAC of its connection; empty until that is verified.
    """

    __slots__ = ("_begin", "_paused", "organisation", "source")

    def __init__(self, source: Source) -> None:
        self.source, self.organisation = source, ""
        self._begin, self._paused = monotonic(), 0.0

    def pause(self) -> None:
        """Stop the time, because the gate waits for the client."""
        self._paused = monotonic()

    def resume(self) -> None:
        """Let the time run again."""
        self._begin += monotonic() - self._paused
        self._paused = 0.0

    @property
    def seconds(self) -> float:
        """How long the gate has worked for the request."""
        return (self._paused or monotonic()) - self._begin


class SealPending:
    """A request whose head was accepted by a `SealGate`; see `Pending`.

    Args:
        caller: the caller that the head proves.
        verify_body: verifies the body of a sealed request, and its seal if that was not possible before; None for an endpoint without seal.
        max_bytes: a longer body is rejected.
        length: the Content-Length, or None.
        now: the clock, for the time limit of a sealed body.
    """

    def __init__(
        self, caller: Caller, verify_body: VerifyBody | None, max_bytes: int, length: int | None, *, now: Clock
    ) -> None:
        self.caller = caller
        self._clock = now
        self._verify_body = verify_body
        self._max_bytes = max_bytes
        self._announced = length
        self._length = 0
        self._chunks: list[bytes] = []

    def update(self, chunk: bytes) -> None:
        """See `Pending.update`."""
        if not chunk:  # HTTP/2 has empty frames, and each would be held
            return
        self._length += len(chunk)
        if self._length > self._max_bytes:
            raise too_large(self._max_bytes)
        self._chunks.append(chunk)

    def finish(self) -> tuple[Caller, bytes]:
        """See `Pending.finish`."""
        if self._announced not in (None, self._length):
            message = f"the body has {self._length} bytes, but its Content-Length is {self._announced}"
            raise FormatError("message.malformed", message)
        body = b"".join(self._chunks)
        if self._verify_body is None:
            return self.caller, body
        if self._clock() - self.caller.at > BODY_TIME:  # else a seal could outlive the window of the replay guard
            raise TransportError("transport.timeout", f"the body did not arrive within {BODY_TIME.seconds} seconds")
        return self.caller._replace(seal=self._verify_body(body)), body


def authorize(certificate: EidasCertificate, interface: Interface, method: str, path: str) -> Route:
    """Check that the roles of a certificate allow a call. Trust in the certificate is not checked.

    Args:
        certificate: the QWAC of the connection.
        interface: the endpoints.
        method: HTTP method, upper case.
        path: path and query as on the wire, from the root of the host.

    Returns:
        The endpoint.

    Raises:
        LocalProtocolError: `endpoint.unknown`, `endpoint.method`.
        FormatError: `query.*`.
        CertificateRejected: see `require_role`.

    Example:
        authorize(qwac, PSD2, "POST", "/psd2/v1/payments/sepa-credit-transfers")

    Source: PSD2 document, part A section 5 rule 2.
    """
    try:
        route = interface.find(method, path)
    except FormatError:
        if (row := interface.row_of(method, path)) is not None:
            require_role(certificate, row)
        raise
    require_role(certificate, route.row)
    return route


def require_role(certificate: EidasCertificate, row: Endpoint[Any, Any]) -> None:
    """Check that a certificate is well-formed and has the role of an endpoint.

    Raises:
        CertificateRejected: `role.missing`; or the code of a malformation, because roles in a malformed certificate prove nothing.

    Source: PSD2 document, part A section 5 rule 2.
    """
    fault = first_error(certificate.findings) if certificate.findings else None
    if fault is not None:
        message = f"the certificate of {certificate.subject} is malformed: {fault.message}"
        raise CertificateRejected(fault.code, message, clause=fault.clause, findings=certificate.findings)
    if row.role is not None and row.role not in certificate.roles:
        stated = shown(", ".join(certificate.roles), limit=200) if certificate.roles else "none"
        raise CertificateRejected(
            "role.missing", f"{row.method} {row.path} needs the role {row.role}, but the certificate has {stated}",
            clause="PSD2 document A.5 rule 2",
        )  # fmt: skip


class _EverySealed(Interface):
    def find(self, method: str, target: str) -> Route:
        return Route(_SEALED, {}, {})

    def methods(self, path: str) -> tuple[str, ...]:
        return ()


_SEALED = Endpoint(
    name="sealed", method="*", path="*", source="", auth=Auth.SEAL, request=Nothing(), answer=Nothing()
)  # fmt: skip


def seal_every_request(interface: Interface) -> Interface:
    """Return an interface for an application with its own routes: every request must be sealed, and no role is required.

    Args:
        interface: the source of the request id and the form of refusals.

    Example:
        SealGate(seal_every_request(PSD2), qwacs=qwacs, seals=seals)
    """
    return _EverySealed(**{field.name: getattr(interface, field.name) for field in fields(interface)})


def _header_case(name: str) -> str:
    return "X-Request-ID" if name == "x-request-id" else name


def _target(source: Source) -> str:
    with suppress(FormatError):
        return source.raw_target().decode("latin-1")
    return ""
