"""What a handler gets of a request that was let through: what was proven, and of whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from tppkit.certificates import EidasCertificate
from tppkit.errors import ConfigurationError
from tppkit.httpsig.message import Message
from tppkit.protocol.endpoint import Auth, Endpoint
from tppkit.protocol.psd2 import PSD2
from tppkit.seals import VerifiedRequest
from tppkit.trust import TrustedPath
from tppkit.web.peer import PeerCertificate

# Where it stands in the ASGI scope and in the WSGI environ.
KEY = "tppkit.request"

_NO_PARAMETERS: Mapping[str, str] = MappingProxyType({})


class Requirement(NamedTuple):
    """What a request must bring besides a believed QWAC.

    Attributes:
        sealed: a seal over it.
        endpoint: the row whose role the QWAC must have, or None when any role will do.
        parameters: what the path says for the row's places.
    """

    sealed: bool = True
    endpoint: Endpoint[Any, Any] | None = None
    parameters: Mapping[str, str] = _NO_PARAMETERS


# From the method and the path as on the wire, without query; None lets a request pass unlooked at, which must be for exact
# paths only, because what routes the request may see another path in the same letters.
RequirementOf = Callable[[str, str], Requirement | None]


def every_request_sealed(method: str, path: str) -> Requirement:
    """Every request must be sealed; no role is asked for."""
    return Requirement()


def psd2_requirement(method: str, path: str) -> Requirement:
    """What the table of the PSD2 interface says.

    Raises:
        LocalProtocolError: `endpoint.unknown`, `endpoint.method`.

    Source: PSD2 document, part A section 4.
    """
    route = PSD2.find(method, path)
    return Requirement(route.row.auth is Auth.SEAL, route.row, route.parameters)


@dataclass(frozen=True, slots=True)
class AdmittedRequest:
    """A request that was let through to its handler.

    Attributes:
        peer: the certificate of the connection, and where it was read.
        qwac_path: its chain, the believed QWAC first.
        at: when it was judged, aware UTC.
        requirement: what was asked of it.
        verified: what the seal proves; None where none was asked for.
        unverified_message: the request as received, with what nobody signed.
        repeated: the replay guard saw this very request before, and no answer to it is kept: its handler may have run before.
    """

    peer: PeerCertificate
    qwac_path: TrustedPath
    at: datetime
    requirement: Requirement
    verified: VerifiedRequest | None
    unverified_message: Message = field(repr=False)
    repeated: bool = False

    @property
    def qwac(self) -> EidasCertificate:
        """The believed certificate of the connection."""
        return self.qwac_path.chain[0]

    @property
    def organization_identifier(self) -> str:
        """The organizationIdentifier of the QWAC, which is the seal's too."""
        identifier = self.qwac.organization_identifier
        return identifier.text if identifier else ""


def admitted_request(source: Mapping[str, Any]) -> AdmittedRequest:
    """What the middleware says of a request.

    Args:
        source: the ASGI scope or the WSGI environ.

    Raises:
        ConfigurationError: `web.unverified`, no middleware has let it through.
    """
    found = source.get(KEY)
    if not isinstance(found, AdmittedRequest):
        raise ConfigurationError("web.unverified", "no seal middleware stands before this handler")
    return found


def verified_request(source: Mapping[str, Any]) -> VerifiedRequest:
    """What the seal of a request proves.

    Args:
        source: the ASGI scope or the WSGI environ.

    Raises:
        ConfigurationError: `web.unverified`, also where the request was let through without a seal.
    """
    verified = admitted_request(source).verified
    if verified is None:
        raise ConfigurationError("web.unverified", "this request needed no seal, so nothing of it is verified")
    return verified
