"""Networks of a sender, and the address of a client behind proxies.

A list of allowed networks is a filter before the check of a signature, not a replacement for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from tppkit._encoding import shown
from tppkit.errors import ConfigurationError, VerificationError

IpAddress = IPv4Address | IPv6Address
IpNetwork = IPv4Network | IPv6Network

_MAX_HOPS = 16
# Some proxies add the port of their client: 203.0.113.7:80, [2001:db8::7]:80.
_PORT = re.compile(r"\[([0-9A-Fa-f:.]+)\](?::[0-9]{1,5})?|([0-9.]+):[0-9]{1,5}")


def parse_networks(texts: Iterable[str]) -> tuple[IpNetwork, ...]:
    """Read networks such as `203.0.113.0/28` or single addresses.

    Raises:
        ConfigurationError: `callback.networks`.

    Example:
        parse_networks(["203.0.113.0/28", "2001:db8::7"])
    """
    networks = []
    for text in texts:
        try:
            networks.append(ip_network(text))
        except ValueError as e:
            raise ConfigurationError("callback.networks", f"{shown(text)} is not a network or address: {e}") from e
    return tuple(networks)


def is_loopback(host: str) -> bool:
    """Whether a name or address, without brackets, is that of this machine for itself."""
    try:
        return host.lower() == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def is_in_networks(peer: str, networks: Sequence[IpNetwork]) -> bool:
    """Whether a text is an address in one of the networks."""
    try:
        return _is_in(_read_address(peer), networks)
    except VerificationError:
        return False


def real_peer(peer: str, *, trusted_proxies: Sequence[IpNetwork] = (), forwarded_for: Sequence[str] = ()) -> IpAddress:
    """Return the address of the client behind trusted proxies.

    Args:
        peer: the other end of the connection.
        trusted_proxies: your own proxies. An entry of `X-Forwarded-For` is used only if such a proxy added it.
        forwarded_for: the values of every `X-Forwarded-For` header, in wire order; an address in them may have a port.

    Returns:
        The first address, from this server outwards, that is not a trusted proxy.

    Raises:
        VerificationError: `callback.peer`, an address on the way cannot be read, or there are more than 16 trusted proxies.
    """
    address = _read_address(peer)
    hops = [hop.strip(" \t") for value in forwarded_for for hop in value.split(",")] if forwarded_for else []
    for hop in reversed(hops[-_MAX_HOPS:]):
        if not _is_in(address, trusted_proxies):
            return address
        address = _read_address(without_port(hop))
    if len(hops) > _MAX_HOPS and _is_in(address, trusted_proxies):
        raise VerificationError("callback.peer", f"the request came through more than {_MAX_HOPS} proxies")
    return address


def verify_peer(
    peer: str,
    *,
    allowed: Sequence[IpNetwork],
    trusted_proxies: Sequence[IpNetwork] = (),
    forwarded_for: Sequence[str] = (),
) -> IpAddress:
    """Reject a request that does not come from the service's addresses.

    Args:
        peer: the other end of the connection.
        allowed: the service's networks; an empty list allows no address.
        trusted_proxies: your own proxies.
        forwarded_for: the values of every `X-Forwarded-For` header, in wire order.

    Returns:
        The allowed address of the client.

    Raises:
        VerificationError: `callback.peer`.

    Example:
        verify_peer("203.0.113.7", allowed=parse_networks(["203.0.113.0/28"]))
    """
    address = real_peer(peer, trusted_proxies=trusted_proxies, forwarded_for=forwarded_for)
    if not _is_in(address, allowed):
        raise VerificationError("callback.peer", f"{address} is not one of the service's addresses")
    return address


def without_port(hop: str) -> str:
    """Remove port and brackets from an address as proxies write it."""
    found = _PORT.fullmatch(hop)
    return hop if found is None else found[1] or found[2]


def _read_address(text: str) -> IpAddress:
    try:
        address = ip_address(text)
    except ValueError:
        raise VerificationError("callback.peer", f"{shown(text)} is not an IP address") from None
    # A dual-stack socket shows an IPv4 peer as ::ffff:a.b.c.d.
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _is_in(address: IpAddress, networks: Sequence[IpNetwork]) -> bool:
    return any(address.version == network.version and address in network for network in networks)
