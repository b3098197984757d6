"""The decision about a request, step by step and without I/O: the ASGI and the WSGI middleware drive the same gate."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from inspect import iscoroutine, iscoroutinefunction

from tppkit._clock import Clock, as_utc, utc_now
from tppkit._encoding import shown
from tppkit._text import printable
from tppkit.errors import ArchiveError, CertificateRejected, ConfigurationError, FormatError, TppkitError
from tppkit.httpsig.message import Message, message_components
from tppkit.protocol.psd2 import PSD2
from tppkit.protocol.psd2.rules import parse_request_id
from tppkit.protocol.refusals import Refusal
from tppkit.seals import BodyReceiver, SealPolicy, verify_request_head
from tppkit.trust import TrustedPath
from tppkit.web.admitted import AdmittedRequest, RequirementOf, every_request_sealed
from tppkit.web.authorize import require_authorized
from tppkit.web.callback_functions import would_not_run
from tppkit.web.message import too_large
from tppkit.web.outcomes import OnOutcome, RequestOutcome, call_sink
from tppkit.web.passing import Passage, PendingRequest
from tppkit.web.peer import PeerCertificate, QwacPolicy, read_peer
from tppkit.web.proxies import TrustedProxy
from tppkit.web.refusing import Answer, OnRefusal, Refused, Tell, brief_refusal, log_refusal
from tppkit.web.replay import ReplayGuard
from tppkit.web.routing import require_mount, require_same_route
from tppkit.web.sources import Source

MAX_BODY_BYTES = 64 * 1024

_LOG = logging.getLogger("tppkit.web")
_LENGTH, _ENCODING, _CODING = "content-length", "content-encoding", "transfer-encoding"
_MAX_SHOWN = 2048
_FAILURE = Refusal(500, "INTERNAL_SERVER_ERROR", "the request could not be handled")

Keep = Callable[[AdmittedRequest], Awaitable[object] | object]


class SealGate:
    """Lets requests through whose caller is believed and whose seal holds.

    Args:
        qwacs: believes the certificate of the connection.
        seals: what is demanded of a seal; its profile names the header of the request's id.
        now: the clock.
        requirement: which requests must be sealed, and for which role; gets method and path, the path as on the wire, below the mount.
        trusted_proxies: whose word about the connection's certificate counts.
        address_is_raw: as for `peer_certificate`: the server tells the connection's own address, whatever a header says.
        keep: gets every sealed request that goes to its handler, before it does; where it fails the handler does not run. What
            the replay guard answers from its store or refuses is not handed to it, so that one captured request fills no archive.
            Under ASGI a coroutine function is awaited, and any other is called in a thread.
        replay: notices a request that was sent before.
        max_body_bytes: a longer body is refused as soon as it is; so much is held in memory.
        tell: what the peer is told; where it raises or gives no Refusal, that is logged, and the peer is told 500.
        on_refusal: gets everything about each refusal; what it raises is logged.
        mount: what is taken off the beginning of every path before the application routes by it, as `/bank`: by the server (`SCRIPT_NAME`,
            `--root-path`) or by what mounts the application. A request with another is refused.
        on_outcome: gets one outcome for each request, when it is refused, answered from the store or handed to the application, and
            before it is, and none for a WebSocket; what it raises is logged. Under ASGI it must not block.

    Raises:
        ConfigurationError: `replay.no-request-id`, not every seal of the profile covers an id to tell requests by;
            `web.setting`, `max_body_bytes` is negative, `mount` cannot be one, or a function is a coroutine function that nobody
            would await.
    """

    def __init__(
        self,
        *,
        qwacs: QwacPolicy,
        seals: SealPolicy,
        now: Clock = utc_now,
        requirement: RequirementOf = every_request_sealed,
        trusted_proxies: Sequence[TrustedProxy] = (),
        address_is_raw: bool = False,
        mount: str = "",
        keep: Keep | None = None,
        replay: ReplayGuard | None = None,
        max_body_bytes: int = MAX_BODY_BYTES,
        tell: Tell = brief_refusal,
        on_refusal: OnRefusal = log_refusal,
        on_outcome: OnOutcome | None = None,
    ) -> None:
        self._qwacs = qwacs
        self._seals = seals
        self._clock = now
        self._requirement = requirement
        self._proxies = tuple(trusted_proxies)
        self._address_is_raw = address_is_raw
        self._mount = require_mount(mount)
        self._keep = keep
        self._replay = replay
        self._max_body_bytes = max_body_bytes
        self._tell = tell
        self._on_refusal = on_refusal
        self._on_outcome = on_outcome
        self._request_id = seals.profile.request_id
        self._id_header = "X-Request-ID" if self._request_id in (None, "x-request-id") else self._request_id
        self._id_demanded = self._request_id in seals.profile.demanded
        self._watched = frozenset({_LENGTH, _ENCODING, _CODING, self._request_id or _LENGTH})
        for name, function in (
            ("requirement", requirement), ("tell", tell), ("on_refusal", on_refusal), ("on_outcome", on_outcome),
        ):  # fmt: skip
            if would_not_run(function, awaited=False):
                raise ConfigurationError(
                    "web.setting", f"{name} is a coroutine or generator function: nobody awaits it"
                )
        if max_body_bytes < 0:
            raise ConfigurationError("web.setting", f"max_body_bytes is {max_body_bytes}")
        if replay is not None and not self._id_demanded:
            raise ConfigurationError(
                "replay.no-request-id", f"not every seal of the profile {seals.profile.name} covers an id"
            )

    def open(self, source: Source) -> PendingRequest | None:
        """Judge the head of a request; None where nothing is required of it.

        Args:
            source: what the server tells.

        Raises:
            TppkitError: why it is refused, as `peer_certificate`, `QwacPolicy.verify`, `require_authorized` and
                `verify_request_head`; `header.duplicate`, `request-id.*`, `message.*`.
        """
        # 1. The path is routed as it was sent; what the request must bring. A stranger is not told what there is, so a failure waits
        #    until 2 has passed.
        # 2. The connection's certificate is a believed QWAC.
        # 3. The request's id is there once and is a UUID; the body announced is within the limit.
        # 4. The QWAC has the endpoint's role.
        # 5. The body is not encoded, and the seal holds for the head.
        at = self.now()
        try:
            head = source.head()
            requirement = self._requirement(head.method, require_same_route(source, head, mount=self._mount))  # 1
        except TppkitError:
            self._believe(source, at)
            raise
        if requirement is None:
            return None
        peer, path = self._believe(source, at)  # 2
        fields = self._fields(head)
        self._check_head(fields)  # 3
        if requirement.endpoint is not None:
            require_authorized(path.chain[0], requirement.endpoint)  # 4
        admitted = AdmittedRequest(peer, path, at, requirement, None, head)
        length = int(fields[_LENGTH]) if _LENGTH in fields else None
        return PendingRequest(
            admitted, self._seal(admitted, fields), max_bytes=self._max_body_bytes, length=length
        )  # 5

    def refuse(self, source: Source, error: Exception) -> Answer:
        """The answer to a request that is refused, in the interface's form; everything is told to `on_refusal`.

        Args:
            source: what the server tells.
            error: why; what is none of our own errors is told as 500 without details.
        """
        refusal = self._told(error)
        target = b""
        with suppress(FormatError):
            target = source.raw_target()
        shown_target = printable(target[:_MAX_SHOWN].decode("latin-1"))
        refused = Refused(error, refusal, printable(source.method), shown_target, source.address())
        call_sink(self._on_refusal, refused)
        headers = [("Content-Type", "application/json"), ("Cache-Control", "no-store"), *self._echo(source)]
        if refusal.status == 405:  # RFC 9110 section 15.5.6
            path = target.partition(b"?")[0].decode("latin-1").removeprefix(self._mount)
            headers.append(("Allow", ", ".join(PSD2.methods(path))))
        body = PSD2.refusals.write(refusal)
        return Answer(refusal.status, (*headers, ("Content-Length", str(len(body)))), body)

    def _told(self, error: Exception) -> Refusal:
        if not isinstance(error, TppkitError):
            return _FAILURE
        try:
            return _require_refusal(self._tell(error))
        except Exception:  # noqa: BLE001  # the application's own function
            _LOG.exception("what a peer is told could not be made")
            return _FAILURE

    def now(self) -> datetime:
        """The time, aware UTC."""
        return as_utc(self._clock())

    @property
    def sink_awaits(self) -> bool:
        """The sink is a coroutine function, or there is nothing to wait for."""
        call = getattr(self._keep, "__call__", None)  # noqa: B004  # an object's own coroutine method
        return self._keep is None or iscoroutinefunction(self._keep) or iscoroutinefunction(call)

    @property
    def max_body_bytes(self) -> int:
        """A longer body is refused."""
        return self._max_body_bytes

    def let_through(self, admitted: AdmittedRequest) -> Passage:
        """The way of a request that was proven."""
        return Passage(admitted, self._replay, self.now)

    def tell_outcome(self, outcome: RequestOutcome) -> None:
        """Tell `on_outcome` what became of a request."""
        if self._on_outcome is not None:
            call_sink(self._on_outcome, outcome)

    def keep(self, admitted: AdmittedRequest) -> Awaitable[object] | object:
        """Give a sealed request to the sink; what the sink raises is raised as it is."""
        return self._keep(admitted) if self._keep is not None and admitted.verified is not None else None

    def _believe(self, source: Source, at: datetime) -> tuple[PeerCertificate, TrustedPath]:
        peer = read_peer(source, trusted_proxies=self._proxies, address_is_raw=self._address_is_raw)
        if peer.ignored:
            _LOG.warning("ignored from %s: %s", source.address(), ", ".join(peer.ignored))
        try:
            return peer, self._qwacs.verify(peer, at=at)
        except CertificateRejected as e:
            if not e.code.startswith("key."):
                raise
            # The peer must not be told that its signature is at fault.
            code = "certificate.weak-key" if e.code == "key.weak" else "certificate.unusual-key"
            raise CertificateRejected(code, e.message, clause=e.clause, findings=e.findings) from e

    def _fields(self, head: Message) -> Mapping[str, str]:
        values, doubled = message_components(head, only=self._watched)
        if doubled:
            raise FormatError("header.duplicate", f"the {doubled[0]} header stands more than once")
        return values

    def _check_head(self, fields: Mapping[str, str]) -> None:
        request_id = fields.get(self._request_id or "")
        if self._id_demanded or request_id is not None:
            parse_request_id(request_id, name=self._id_header)
        length = fields.get(_LENGTH, "0")
        if not (length.isascii() and length.isdigit()):
            raise FormatError("message.malformed", f"the Content-Length {shown(length)} is not a number")
        if len(length) > 18 or int(length) > self._max_body_bytes:
            raise too_large(self._max_body_bytes)
        coding = fields.get(_CODING)
        if coding is not None and (coding.strip(" \t").lower() != "chunked" or _LENGTH in fields):
            # RFC 9112 section 6.3: whoever reads such a body otherwise sees another request.
            beside = " beside a Content-Length" if _LENGTH in fields else ""
            raise FormatError("message.malformed", f"the Transfer-Encoding is {shown(coding)}{beside}")

    def _seal(self, admitted: AdmittedRequest, fields: Mapping[str, str]) -> BodyReceiver | None:
        if not admitted.requirement.sealed:
            return None
        if fields.get(_ENCODING):
            # What is sealed is the encoded body, and whatever decodes it afterwards is not.
            raise FormatError("message.content-encoding", "a sealed body has a Content-Encoding")
        head = admitted.unverified_message
        verified = verify_request_head(head, qwac=admitted.qwac, at=admitted.at, policy=self._seals)
        return verified.receive_body(max_bytes=self._max_body_bytes)

    def _echo(self, source: Source) -> list[tuple[str, str]]:
        """The request's id, when it is one."""
        values = source.header_values(self._id_header.lower())
        with suppress(FormatError):
            if len(values) == 1:
                return [(self._id_header, parse_request_id(values[0]))]
        return []


def _require_refusal(told: object) -> Refusal:
    if isinstance(told, Refusal):
        return told
    if iscoroutine(told):
        told.close()  # it was never started
    raise ConfigurationError("web.setting", f"tell gave a {type(told).__name__} and no Refusal")


def not_kept(error: Exception) -> ArchiveError:
    """The error for evidence that the sink did not keep; raise it from `error`."""
    return ArchiveError("evidence.not-kept", f"the verified request could not be kept: {type(error).__name__}: {error}")
