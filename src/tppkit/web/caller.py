"""Who sent a request and what was proven about it, and the protocols between those who prove it and those who ask."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from tppkit._text import printable
from tppkit.certificates import EidasCertificate
from tppkit.certificates.oids import ORGANIZATION
from tppkit.errors import ConfigurationError
from tppkit.protocol.endpoint import Endpoint
from tppkit.seals import VerifiedRequest
from tppkit.trust import TrustedPath
from tppkit.web.peer import PeerCertificate
from tppkit.web.sources import Source

# Where the middlewares put the caller: a name in the ASGI scope and in the WSGI environ.
KEY = "tppkit.caller"
_MAX_NAME = 256


class Caller(NamedTuple):
    """An authenticated caller. A named tuple, because one is made for every request and this is the cheapest value.

    Attributes:
        id: the name that its requests, payments and evidence are kept under; with a QWAC its organizationIdentifier. Never a key.
        at: when the request was judged, aware UTC.
        roles: its PSD2 roles.
        qwac_path: the chain of its QWAC, or None where the interface asks for no certificate.
        peer: the certificates as they were received, or None.
        seal: what the seal of the request proves, or None where none was required.
        repeated: the same request was received before, and its handler may have run.

    Example:
        caller = caller_of(scope)
        caller.id, caller.roles, caller.seal
    """

    id: str
    at: datetime
    roles: tuple[str, ...] = ()
    qwac_path: TrustedPath | None = None
    peer: PeerCertificate | None = None
    seal: VerifiedRequest | None = None
    repeated: bool = False

    @property
    def qwac_chain(self) -> tuple[EidasCertificate, ...]:
        """The chain of the QWAC, the QWAC first; empty where there is none."""
        return () if self.qwac_path is None else self.qwac_path.chain

    @property
    def name(self) -> str | None:
        """The organisation's name in its QWAC, or None."""
        names = self.qwac_chain[0].subject.values(ORGANIZATION) if self.qwac_path is not None else ()
        return printable(names[0])[:_MAX_NAME] if names else None


class Pending(Protocol):
    """A request whose head was accepted and whose body is still to come."""

    @property
    def caller(self) -> Caller:
        """What the head proves."""

    def update(self, chunk: bytes) -> None:
        """Take the next bytes of the body.

        Raises:
            FormatError: `message.too-large`.
        """

    def finish(self) -> tuple[Caller, bytes]:
        """The caller and the whole body, after the last `update`.

        Raises:
            FormatError: `message.malformed`, the body is not as long as its Content-Length.
            SignatureRejected: `digest.mismatch`, `signature.uncovered`.
        """


class Authenticator(Protocol):
    """Judges the head of a request; one object for each kind of `Auth`."""

    def open(self, source: Source, row: Endpoint[Any, Any] | None) -> Pending:
        """Judge the head of a request.

        Args:
            source: the request as the server hands it over.
            row: the endpoint; None to find out only who calls.

        Raises:
            TppkitError: why the request is rejected.
        """


def caller_of(request: Mapping[str, Any]) -> Caller:
    """The caller of a request that passed the seal middleware.

    Args:
        request: the ASGI scope or the WSGI environ.

    Raises:
        ConfigurationError: `web.unverified`, no middleware was passed.
    """
    found = request.get(KEY)
    if not isinstance(found, Caller):
        raise ConfigurationError("web.unverified", "the request did not pass a seal middleware")
    return found


def verified_request(request: Mapping[str, Any]) -> VerifiedRequest:
    """What the seal of a request proves.

    Args:
        request: the ASGI scope or the WSGI environ.

    Raises:
        ConfigurationError: `web.unverified`, no middleware was passed, or the endpoint requires no seal.
    """
    seal = caller_of(request).seal
    if seal is None:
        raise ConfigurationError(
            "web.unverified", "the endpoint requires no seal, so nothing of the request is verified"
        )
    return seal
