"""The server's end of one TLS session over memory buffers: no sockets, no HTTP."""

from __future__ import annotations

from contextlib import suppress

from OpenSSL import SSL, crypto

_RECORD = 16_384  # bytes, the longest plaintext of one TLS record (RFC 8446 section 5.1)
_OUTPUT = 131_072  # bytes of ciphertext taken from OpenSSL at a time


class NoCommonProtocol(Exception):
    """The client offers application protocols, but not HTTP/1.1."""


class TlsFailure(Exception):
    """The TLS session failed; the text is the reason for the log."""


def _reason(error: Exception) -> str:
    queue = error.args[0] if error.args else ""
    text = "; ".join(entry[-1] for entry in queue) if isinstance(queue, list) else str(error)
    return text or "unspecified TLS failure"


class TlsSession:
    """The server's end of one TLS session over memory buffers.

    When a method raises `TlsFailure`, the next `take_output` returns the alert for the peer.
    """

    def __init__(self, context: SSL.Context) -> None:
        self._errors: list[str] = []
        self._connection = SSL.Connection(context)
        self._connection.set_app_data(self._errors)
        self._connection.set_accept_state()

    def feed(self, ciphertext: bytes) -> None:
        """Add bytes from the socket."""
        self._connection.bio_write(ciphertext)

    def handshake(self) -> bool:
        """Continue the handshake; True if it is complete, False if it waits for the peer."""
        try:
            self._connection.do_handshake()
        except SSL.WantReadError:
            return False
        except (SSL.Error, NoCommonProtocol) as error:
            raise TlsFailure(": ".join([_reason(error), *self._errors])) from error
        return True

    def read(self) -> bytes | None:
        """Return the next decrypted bytes, None if there are none yet, b"" after the peer's close_notify."""
        try:
            return self._connection.recv(_RECORD)
        except SSL.WantReadError:
            return None
        except SSL.ZeroReturnError:
            return b""
        except SSL.Error as error:
            raise TlsFailure(_reason(error)) from error

    def write(self, plaintext: memoryview) -> None:
        """Encrypt bytes; the ciphertext is then in `take_output`."""
        try:
            self._connection.sendall(plaintext)
        except SSL.Error as error:
            raise TlsFailure(_reason(error)) from error

    def take_output(self) -> bytes:
        """Return the bytes for the socket, b"" if there are none."""
        parts: list[bytes] = []
        with suppress(SSL.WantReadError):
            while not parts or len(parts[-1]) == _OUTPUT:
                parts.append(self._connection.bio_read(_OUTPUT))
        return b"".join(parts)

    def queue_close_notify(self) -> None:
        """Queue close_notify, unless the session has already failed."""
        with suppress(SSL.Error):
            self._connection.shutdown()

    def client_certificates(self) -> tuple[str, ...]:
        """Return the client's certificates as PEM, its own first; empty without one."""
        leaf = self._connection.get_peer_certificate()
        rest = self._connection.get_peer_cert_chain() or []  # on a server, OpenSSL's chain does not contain the leaf
        return tuple(
            crypto.dump_certificate(crypto.FILETYPE_PEM, each).decode("ascii") for each in [leaf, *rest] if each is not None
        )  # fmt: skip

    @property
    def certificate_error(self) -> str | None:
        """The errors of the client's certificates, or None."""
        return "; ".join(self._errors) or None
