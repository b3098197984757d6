"""The networks from which callbacks and webhooks are accepted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network

from tppkit._encoding import shown
from tppkit._networks import IpAddress, IpNetwork, is_in_networks, parse_networks, real_peer, verify_peer, without_port
from tppkit.errors import ConfigurationError, FormatError, VerificationError
from tppkit.web.proxies import address_headers
from tppkit.web.sources import UNIX, Source, require_length_announced

_LOCAL = parse_networks(["127.0.0.1/32"])
_MAX_ADDRESSES_CHARACTERS = 2048  # in all headers that may contain the address of the peer; about 20 hops
_BETWEEN = re.compile(r'[\s,;="]+')


@dataclass(frozen=True, slots=True)
class CallbackPeers:
    """The networks from which callbacks or webhooks are accepted: a filter before the signature, never instead of it.

    Attributes:
        allowed: the networks of the service.
        trusted_proxies: your own proxies, whose `X-Forwarded-For` is read.
        unix_socket: the server listens on a Unix socket, and its other end is a trusted proxy on this machine.
        address_is_raw: the server takes the address of the connection from no header (uvicorn: `--no-proxy-headers`).
        http2: as for `TrustedProxy`; without it, requests by HTTP/2 from a trusted proxy are rejected.

    Raises:
        ConfigurationError: `callback.networks`, texts must be read with `parse_networks`.

    Example:
        peers = CallbackPeers(parse_networks(["203.0.113.0/28"]))
    """

    allowed: Sequence[IpNetwork]
    trusted_proxies: Sequence[IpNetwork] = ()
    unix_socket: bool = False
    address_is_raw: bool = False
    http2: bool = False

    def __post_init__(self) -> None:
        for network in (*self.allowed, *self.trusted_proxies):
            if not isinstance(network, IPv4Network | IPv6Network):
                raise ConfigurationError(
                    "callback.networks",
                    f"{shown(str(network))} is a {type(network).__name__}: use parse_networks(...)",
                )

    def require(self, source: Source) -> None:
        """Reject a request from any other address.

        A server may have replaced the address of the connection by one from a header (uvicorn does by default), with a port too. So
        a request with such a header is accepted from a trusted proxy only, and unless `address_is_raw` the header must not name the
        proxy's address (the server may have taken it from there), nor be too long to be searched for it.

        Args:
            source: the request as the server passes it.

        Raises:
            VerificationError: `callback.peer`.
            FormatError: `message.no-length`, X-Forwarded-For may be a trailer of the sender.
        """
        peer, proxies, forwarded = self._way(source)
        verify_peer(peer, allowed=self.allowed, trusted_proxies=proxies, forwarded_for=forwarded)

    def client(self, source: Source) -> str:
        """Return the address of the sender behind trusted proxies, for log lines; if it is uncertain, that of the connection."""
        try:
            peer, proxies, forwarded = self._way(source)
            return str(real_peer(peer, trusted_proxies=proxies, forwarded_for=forwarded))
        except (VerificationError, FormatError):
            return source.address() or ""

    def _way(self, source: Source) -> tuple[str, tuple[IpNetwork, ...], tuple[str, ...]]:
        """Return the address of the connection, the trusted proxies, and the values of X-Forwarded-For."""
        peer, proxies = source.address() or "", tuple(self.trusted_proxies)
        if peer == UNIX and self.unix_socket:
            peer, proxies = "127.0.0.1", (*proxies, *_LOCAL)
        if not (self.http2 or source.is_http1) and is_in_networks(peer, proxies):
            raise VerificationError(
                "callback.peer", f"the proxy {shown(peer)} speaks HTTP/2, or a client behind it: see http2"
            )
        names = address_headers(source)
        is_certain = self.address_is_raw or source.address() == UNIX
        # In this order: an unknown sender must not make the receiver parse its headers.
        if names and (
            not is_in_networks(peer, proxies) or (not is_certain and _may_come_from_header(peer, source, names))
        ):
            raise VerificationError(
                "callback.peer",
                f"{shown(peer)} is no trusted proxy, or an address that the server may have taken from {names[0]}: see address_is_raw",
            )
        forwarded = source.header_values("x-forwarded-for") if proxies else ()
        if forwarded:
            require_length_announced(source)
        return peer, proxies, forwarded


def _may_come_from_header(peer: str, source: Source, names: Sequence[str]) -> bool:
    """Whether one of the headers names an address, whatever its form; long headers are not searched."""
    values = [value for name in names for value in source.header_values(name)]
    if sum(map(len, values)) > _MAX_ADDRESSES_CHARACTERS:
        return True
    address = real_peer(peer)
    return any(_is_address(without_port(part), address) for value in values for part in _BETWEEN.split(value))


def _is_address(text: str, address: IpAddress) -> bool:
    try:
        return real_peer(text) == address
    except VerificationError:
        return False
