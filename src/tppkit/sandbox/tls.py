"""The server side of mutual TLS for the sandbox, as a protocol class for uvicorn's `http=` setting.

A bank asks every client for its QWAC, so the application must see the certificate a client presented. uvicorn
does not hand it over, and asyncio closes a refused handshake without the alert that tells the client why.
Here uvicorn listens on plain TCP, and this module runs TLS (pyOpenSSL over memory buffers) between the socket
and uvicorn's own HTTP protocol. In soft mode every client completes the handshake and the application judges
by `scope["extensions"]["tls"]`; in strict mode a certificate that does not verify is refused with its alert.
Either way TLS itself proves that the client holds the private key of the certificate it presented.

Source: ASGI TLS extension 0.2; RFC 8446 (TLS 1.3); RFC 5246 and RFC 5289 (TLS 1.2, its AEAD suites).
"""

from __future__ import annotations

import asyncio
import copy
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto
from typing import Any, ClassVar, cast

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from OpenSSL import SSL, crypto
from uvicorn.config import Config
from uvicorn.protocols.http.auto import AutoHTTPProtocol
from uvicorn.server import ServerState

from tppkit.errors import ConfigurationError

_LOGGER = logging.getLogger("tppkit.sandbox.tls")

_CHUNK = 65_536  # bytes of plaintext encrypted at a time, so that a large response is not held twice
_RECORD = 16_384  # bytes, the longest plaintext of one TLS record (RFC 8446 section 5.1)
_OUTPUT = 2 * _CHUNK  # bytes of ciphertext taken from OpenSSL at a time
_LINGER_S = 1.0  # seconds a refused peer has to read its alert: closing on unread input would destroy it
_ALPN = b"http/1.1"

# IANA registry "TLS Cipher Suites", by OpenSSL's names: TLS 1.3, and for TLS 1.2 ECDHE with AEAD (RFC 9325).
_CIPHER_SUITES: Mapping[str, int] = {
    "TLS_AES_128_GCM_SHA256": 0x1301,
    "TLS_AES_256_GCM_SHA384": 0x1302,
    "TLS_CHACHA20_POLY1305_SHA256": 0x1303,
    "ECDHE-ECDSA-AES128-GCM-SHA256": 0xC02B,
    "ECDHE-ECDSA-AES256-GCM-SHA384": 0xC02C,
    "ECDHE-RSA-AES128-GCM-SHA256": 0xC02F,
    "ECDHE-RSA-AES256-GCM-SHA384": 0xC030,
    "ECDHE-RSA-CHACHA20-POLY1305": 0xCCA8,
    "ECDHE-ECDSA-CHACHA20-POLY1305": 0xCCA9,
}

# OpenSSL, X509_verify_cert_error_string(3): what a server can meet in a client's chain.
_X509_ERRORS: Mapping[int, str] = {
    2: "unable to get issuer certificate",
    6: "unable to decode issuer public key",
    7: "certificate signature failure",
    9: "certificate is not yet valid",
    10: "certificate has expired",
    13: "format error in certificate's notBefore field",
    14: "format error in certificate's notAfter field",
    18: "self-signed certificate",
    19: "self-signed certificate in certificate chain",
    20: "unable to get local issuer certificate",
    21: "unable to verify the first certificate",
    22: "certificate chain too long",
    25: "path length constraint exceeded",
    26: "unsuitable certificate purpose",
    32: "key usage does not include certificate signing",
    34: "unhandled critical extension",
    41: "invalid or inconsistent certificate extension",
    47: "permitted subtree violation",
    48: "excluded subtree violation",
    66: "EE certificate key too weak",
    67: "CA certificate key too weak",
    68: "CA signature digest algorithm too weak",
    79: "invalid CA certificate",
    94: "Certificate public key has explicit ECC parameters",
}


class TlsMode(StrEnum):
    """Who judges the client certificate: the application (soft) or the handshake (strict)."""

    SOFT = "soft"
    STRICT = "strict"


@dataclass(frozen=True, slots=True)
class ServerTls:
    """The server's identity, whom it trusts, and its limits.

    Attributes:
        certificate_pem: the server certificate, leaf first, then intermediates; PEM.
        private_key_pem: the leaf's private key, PEM, not encrypted; never part of the repr.
        client_anchors_pem: CA certificates, PEM: a client's chain must end at a self-issued one, others may
            stand between; when none is self-issued, each one is trusted by itself.
        mode: soft lets every client in and reports; strict refuses in the handshake.
        handshake_timeout_s: seconds a client has for the handshake; after it, the longest it may
            leave waiting bytes unread.
        max_connections: open connections, unfinished handshakes included; further ones are closed at once.
    """

    certificate_pem: bytes
    private_key_pem: bytes = field(repr=False)
    client_anchors_pem: bytes
    mode: TlsMode = TlsMode.SOFT
    handshake_timeout_s: float = 10.0
    max_connections: int = 1000


def make_http_protocol(
    tls: ServerTls,
    *,
    inner: type[asyncio.Protocol] | None = None,
) -> type[asyncio.Protocol]:
    """Make the class to pass to `uvicorn.Config(app, http=...)`.

    The limit of connections is counted per class made here.

    Args:
        tls: identity, trust and limits.
        inner: uvicorn's HTTP protocol class that gets the decrypted bytes; by default the one that uvicorn
            would take (httptools if installed, else h11).

    Raises:
        ConfigurationError: `tls.certificate` or `tls.anchors`, no PEM certificates; `tls.private-key`, not
            an unencrypted PEM key, or not the certificate's.
    """
    certificates = _read_certificates(tls.certificate_pem, "tls.certificate")

    class TlsHttpProtocol(_TlsConnection):
        """uvicorn's HTTP protocol behind mutual TLS."""

        listener = _Listener(
            tls=tls,
            context=_make_context(tls, certificates),
            inner=inner or AutoHTTPProtocol,
            server_cert=certificates[0].public_bytes(Encoding.PEM).decode("ascii"),
        )

    return TlsHttpProtocol


def _read_certificates(pem: bytes, code: str) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise ConfigurationError(code, f"no PEM certificates can be read from {len(pem)} bytes") from error


def _make_context(tls: ServerTls, certificates: list[x509.Certificate]) -> SSL.Context:
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    _set_protocol(context)
    _set_identity(context, certificates, tls.private_key_pem)
    _set_trust(context, _read_certificates(tls.client_anchors_pem, "tls.anchors"), tls.mode)
    return context


def _set_protocol(context: SSL.Context) -> None:
    suites = {prefix: [n for n in _CIPHER_SUITES if n.startswith(prefix)] for prefix in ("TLS_", "ECDHE-")}
    context.set_min_proto_version(SSL.TLS1_2_VERSION)
    context.set_tls13_ciphersuites(":".join(suites["TLS_"]).encode())
    context.set_cipher_list(":".join(suites["ECDHE-"]).encode())
    context.set_alpn_select_callback(_select_alpn)
    context.set_options(SSL.OP_NO_COMPRESSION | SSL.OP_NO_RENEGOTIATION | SSL.OP_NO_TICKET)
    # A resumed session would come without its chain. pyOpenSSL cannot stop OpenSSL from sending tickets in
    # TLS 1.3, but with OP_NO_TICKET they only name entries of the session cache, and that is off.
    context.set_session_cache_mode(SSL.SESS_CACHE_OFF)


def _set_identity(context: SSL.Context, certificates: list[x509.Certificate], private_key_pem: bytes) -> None:
    try:
        key = cast("Any", load_pem_private_key(private_key_pem, password=None))
        context.use_certificate(certificates[0])
        context.use_privatekey(key)  # OpenSSL compares it with the certificate
    except (ValueError, TypeError, UnsupportedAlgorithm, SSL.Error) as error:
        message = "the server's private key is not unencrypted PEM, or not the one of its certificate"
        raise ConfigurationError("tls.private-key", message) from error
    for certificate in certificates[1:]:
        context.add_extra_chain_cert(certificate)


def _set_trust(context: SSL.Context, anchors: list[x509.Certificate], mode: TlsMode) -> None:
    # No list of accepted issuers is sent: in soft mode clients must not hold back a certificate, and in
    # strict mode they would turn "unknown CA" into "certificate required".
    store = cast("crypto.X509Store", context.get_cert_store())
    for anchor in anchors:
        store.add_cert(crypto.X509.from_cryptography(anchor))
    if not any(anchor.subject == anchor.issuer for anchor in anchors):
        store.set_flags(crypto.X509StoreFlags.PARTIAL_CHAIN)
    if mode is TlsMode.STRICT:
        context.set_verify(SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT, _judge_strict)
    else:
        context.set_verify(SSL.VERIFY_PEER, _judge_soft)


def _judge_strict(connection: SSL.Connection, _: crypto.X509, number: int, depth: int, holds: int) -> bool:
    if not holds:
        text = _X509_ERRORS.get(number, "certificate verification failure")
        connection.get_app_data().append(f"{text} (X509 error {number} at depth {depth})")
    return bool(holds)


def _judge_soft(connection: SSL.Connection, _: crypto.X509, number: int, depth: int, holds: int) -> bool:
    _judge_strict(connection, _, number, depth, holds)
    return True


def _select_alpn(_: SSL.Connection, offered: list[bytes]) -> bytes:
    if _ALPN not in offered:
        raise _NoCommonProtocol("no application protocol in common")  # RFC 7301 section 3.2: a fatal alert
    return _ALPN


class _NoCommonProtocol(Exception):
    """The client offers application protocols, but not HTTP/1.1."""


class _TlsFailure(Exception):
    """The TLS session cannot go on; the text is the reason for the log."""


def _reason(error: Exception) -> str:
    queue = error.args[0] if error.args else ""
    text = "; ".join(entry[-1] for entry in queue) if isinstance(queue, list) else str(error)
    return text or "unspecified TLS failure"


class _TlsSession:
    """The server's end of one TLS session over memory buffers; it knows neither sockets nor HTTP.

    When a method raises `_TlsFailure`, the alert for the peer is in what `take_output` returns next.
    """

    def __init__(self, context: SSL.Context) -> None:
        self._errors: list[str] = []
        self._connection = SSL.Connection(context)
        self._connection.set_app_data(self._errors)
        self._connection.set_accept_state()

    def feed(self, ciphertext: bytes) -> None:
        """Take bytes as they came from the socket."""
        self._connection.bio_write(ciphertext)

    def handshake(self) -> bool:
        """Go on with the handshake: True once it is complete, False while it waits for the peer."""
        try:
            self._connection.do_handshake()
        except SSL.WantReadError:
            return False
        except (SSL.Error, _NoCommonProtocol) as error:
            raise _TlsFailure(": ".join([_reason(error), *self._errors])) from error
        return True

    def read(self) -> bytes | None:
        """Return the next decrypted bytes, None if there are none yet, b"" if the peer said goodbye."""
        try:
            return self._connection.recv(_RECORD)
        except SSL.WantReadError:
            return None
        except SSL.ZeroReturnError:
            return b""
        except SSL.Error as error:
            raise _TlsFailure(_reason(error)) from error

    def write(self, plaintext: memoryview) -> None:
        """Encrypt bytes; the ciphertext is then in `take_output`."""
        try:
            self._connection.sendall(plaintext)
        except SSL.Error as error:
            raise _TlsFailure(_reason(error)) from error

    def take_output(self) -> bytes:
        """Return the bytes for the socket, b"" if there are none."""
        parts: list[bytes] = []
        with suppress(SSL.WantReadError):
            while not parts or len(parts[-1]) == _OUTPUT:
                parts.append(self._connection.bio_read(_OUTPUT))
        return b"".join(parts)

    def say_goodbye(self) -> None:
        """Queue close_notify, unless the session has already failed."""
        with suppress(SSL.Error):
            self._connection.shutdown()

    def describe(self, server_cert: str) -> dict[str, object]:
        """Return what the ASGI TLS extension 0.2 asks for."""
        leaf = self._connection.get_peer_certificate()
        rest = self._connection.get_peer_cert_chain() or []  # on a server OpenSSL keeps the leaf apart
        return {
            "server_cert": server_cert,
            "client_cert_chain": tuple(_pem(each) for each in [leaf, *rest] if each is not None),
            "client_cert_name": None if leaf is None else _subject_name(leaf),
            "client_cert_error": "; ".join(self._errors) or None,
            "tls_version": self._connection.get_protocol_version(),
            "cipher_suite": _CIPHER_SUITES.get(self._connection.get_cipher_name() or ""),
        }


def _pem(certificate: crypto.X509) -> str:
    return crypto.dump_certificate(crypto.FILETYPE_PEM, certificate).decode("ascii")


def _subject_name(certificate: crypto.X509) -> str | None:
    try:
        return certificate.to_cryptography().subject.rfc4514_string()
    except (ValueError, x509.InvalidVersion, Warning):  # OpenSSL reads more than cryptography does
        return None


_Scope = MutableMapping[str, Any]
_App = Callable[[_Scope, Any, Any], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class _AppWithTls:
    """The ASGI application of one connection: each request's scope gets the connection's TLS facts."""

    app: _App
    extension: Mapping[str, object]

    def __call__(self, scope: _Scope, receive: Any, send: Any) -> Awaitable[None]:
        scope["extensions"] = {**scope.get("extensions", {}), "tls": dict(self.extension)}
        return self.app(scope, receive, send)


@dataclass(frozen=True, slots=True)
class _Listener:
    """What the connections of one protocol class share."""

    tls: ServerTls
    context: SSL.Context
    inner: Callable[..., asyncio.Protocol]
    server_cert: str
    live: set[asyncio.Protocol] = field(default_factory=set)


class _Phase(Enum):
    HANDSHAKE = auto()
    OPEN = auto()
    CLOSING = auto()  # nothing is read or written any more; what was written is on its way
    CLOSED = auto()


class _TlsConnection(asyncio.Protocol, asyncio.Transport):
    """One client's connection: a protocol to the socket, a transport to uvicorn's HTTP protocol.

    At most one timer runs: for the handshake, for a peer that does not read, or for the farewell.
    """

    listener: ClassVar[_Listener]

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__()
        self._config = config
        self._server_state = server_state
        self._app_state = app_state
        self._loop = _loop or asyncio.get_running_loop()
        self._handshaking = cast("set[object]", server_state.connections)  # uvicorn calls shutdown() on these
        self._phase = _Phase.HANDSHAKE
        self._timer: asyncio.TimerHandle | None = None
        self._write_paused = False
        self._http: asyncio.Protocol | None = None

    # As the socket's protocol.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast("asyncio.Transport", transport)
        if len(self.listener.live) >= self.listener.tls.max_connections:
            self._end("connection limit reached")
            return
        self._session = _TlsSession(self.listener.context)
        self._send_at_once()
        self.listener.live.add(self)
        self._handshaking.add(self)
        self._arm(self.listener.tls.handshake_timeout_s, self._end, "handshake timeout")

    def data_received(self, data: bytes) -> None:
        if self._phase in (_Phase.HANDSHAKE, _Phase.OPEN):
            self._session.feed(data)
            self._advance()

    def eof_received(self) -> bool:
        if self._http is not None and self._phase is _Phase.OPEN:
            self._http.eof_received()
            self.close()
        return False  # as in uvicorn: a client that stops sending gets no more answers

    def pause_writing(self) -> None:
        self._write_paused = True
        if self._http is not None:
            self._http.pause_writing()
            self._watch_reader()

    def resume_writing(self) -> None:
        self._write_paused = False
        if self._http is not None:
            self._http.resume_writing()
        if self._phase is _Phase.OPEN:
            self._disarm()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._phase is _Phase.HANDSHAKE:
            self._log("closed by the client during the handshake")
        self._phase = _Phase.CLOSED
        self._disarm()
        self.listener.live.discard(self)
        self._handshaking.discard(self)
        if self._http is not None:
            self._http.connection_lost(None)  # given exc, uvicorn would leave its keep-alive timer running
            self._http = None

    def shutdown(self) -> None:
        """Give up the handshake, for the server stops; later uvicorn asks the HTTP protocol instead."""
        if self._phase is _Phase.HANDSHAKE:
            self._log("server is shutting down")
        self.abort()

    # As the HTTP protocol's transport.

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "sslcontext":  # from which uvicorn concludes that the scheme is https
            return self.listener.context
        return self._socket.get_extra_info(name, default)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._http or self

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._http = cast("asyncio.Protocol", protocol)

    def is_closing(self) -> bool:
        return self._phase is not _Phase.OPEN or self._socket.is_closing()

    def is_reading(self) -> bool:
        return self._socket.is_reading()

    def pause_reading(self) -> None:
        self._socket.pause_reading()

    def resume_reading(self) -> None:
        self._socket.resume_reading()

    def get_write_buffer_size(self) -> int:
        return self._socket.get_write_buffer_size()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._socket.get_write_buffer_limits()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._socket.set_write_buffer_limits(high, low)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        view = memoryview(data)
        try:
            for start in range(0, len(view), _CHUNK):
                if not self.is_closing():
                    self._session.write(view[start : start + _CHUNK])
                    self._flush()
        except _TlsFailure as failure:
            self._refuse(str(failure))

    def can_write_eof(self) -> bool:
        return False

    def write_eof(self) -> None:
        raise NotImplementedError("a TLS connection is closed as a whole")

    def close(self) -> None:
        if self._phase is _Phase.OPEN:
            self._phase = _Phase.CLOSING
            self._session.say_goodbye()
            self._flush()
            self._socket.close()
            self._watch_reader()

    def abort(self) -> None:
        self._phase = _Phase.CLOSED
        self._socket.abort()

    # Between the two.

    def _advance(self) -> None:
        try:
            if self._phase is _Phase.HANDSHAKE and self._session.handshake():
                self._open()
            self._deliver()
            if self._flush() and self._write_paused:  # answers of TLS itself, such as to a KeyUpdate
                self._end("asks for more than it reads")
        except _TlsFailure as failure:
            self._refuse(str(failure))

    def _open(self) -> None:
        config = copy.copy(self._config)
        config.loaded_app = _AppWithTls(config.loaded_app, self._session.describe(self.listener.server_cert))
        self._disarm()
        self._phase = _Phase.OPEN
        self._handshaking.discard(self)
        self._http = self.listener.inner(
            config=config,
            server_state=self._server_state,
            app_state=self._app_state,
            _loop=self._loop,
        )
        self._http.connection_made(self)

    def _deliver(self) -> None:
        while self._http is not None and not self.is_closing():
            plaintext = self._session.read()
            if plaintext is None:
                break
            if plaintext:
                self._hand_over(self._http, plaintext)
            else:
                self.eof_received()

    def _hand_over(self, http: asyncio.Protocol, plaintext: bytes) -> None:
        try:
            http.data_received(plaintext)
        except Exception as error:  # noqa: BLE001 - uvicorn over h11 raises on some malformed bodies
            self._end(f"HTTP protocol failed: {type(error).__name__}")

    def _flush(self) -> bool:
        output = self._session.take_output()
        if output and not self._socket.is_closing():
            self._socket.write(output)
        return bool(output)

    def _refuse(self, reason: str) -> None:
        self._log(reason)
        self._phase = _Phase.CLOSING
        self._flush()
        if not self._socket.is_closing():
            self._socket.write_eof()
        self._arm(_LINGER_S, self._socket.abort)

    def _watch_reader(self, unread_before: int | None = None) -> None:
        unread = self._socket.get_write_buffer_size()
        if unread_before is not None and unread >= unread_before:
            self._end(f"left {unread} bytes unread")
        else:
            self._arm(self.listener.tls.handshake_timeout_s, self._watch_reader, unread)

    def _send_at_once(self) -> None:
        raw = self._socket.get_extra_info("socket")
        if raw.family in (socket.AF_INET, socket.AF_INET6):  # asyncio does it only where the socket says TCP
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _end(self, reason: str) -> None:
        self._log(reason)
        self.abort()

    def _log(self, reason: str) -> None:
        peer = self._socket.get_extra_info("peername") or ("unknown", 0)
        _LOGGER.info("TLS connection from %s port %s ended: %s", *peer[:2], reason)

    def _arm(self, delay_s: float, callback: Callable[..., None], *arguments: object) -> None:
        self._disarm()
        self._timer = self._loop.call_later(delay_s, callback, *arguments)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
