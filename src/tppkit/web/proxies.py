"""The client certificate in a header of the proxy that ended the TLS connection.

A header proves nothing by itself. It is used only on a connection from a configured address, and only the header that the proxy
overwrites. Other headers of this kind are ignored and reported.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from hashlib import sha256
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from urllib.parse import unquote_to_bytes

from tppkit._encoding import decode_base64, shown
from tppkit._networks import real_peer, without_port
from tppkit.errors import ConfigurationError, FormatError, VerificationError
from tppkit.web.sources import UNIX, Source

MAX_HEADER = 64 * 1024
# Servers can be configured to replace the address of the connection with one from these headers.
FORWARDED = ("x-forwarded-for", "forwarded", "x-real-ip")
_MAX_HOPS = 16

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----\s*")
_URL_ENCODED = re.compile(r"(?:[!-$&-~]|%[0-9A-Fa-f]{2})+")
_BINARY = re.compile(r":([A-Za-z0-9+/=]*):")
_HASH = re.compile(r"[0-9A-Fa-f]{64}")
# One key and value of Envoy's header; a value that contains a separator is quoted.
_PAIR = re.compile(r'\s*+([A-Za-z]+)=(?:"((?:[^"\\]|\\.)*)"|([^",;=]*+))\s*+([;,]|\Z)')


class ProxyForm(StrEnum):
    """The format of the client certificate in a proxy's header.

    Attributes:
        NGINX: PEM, percent-encoded: `proxy_set_header X-SSL-Client-Cert $ssl_client_escaped_cert`.
        HAPROXY: base64 of DER: `http-request set-header X-SSL-Client-Cert %[ssl_c_der,base64]`.
        ENVOY: X-Forwarded-Client-Cert with `Cert`, and `Chain` and `Hash` if set. Several elements are rejected.
        RFC9440: Client-Cert and Client-Cert-Chain.
    """

    NGINX = "nginx"
    HAPROXY = "haproxy"
    ENVOY = "envoy"
    RFC9440 = "rfc9440"


_CHAIN = "client-cert-chain"
_USUAL = {
    ProxyForm.NGINX: "x-ssl-client-cert",
    ProxyForm.HAPROXY: "x-ssl-client-cert",
    ProxyForm.ENVOY: "x-forwarded-client-cert",
    ProxyForm.RFC9440: "client-cert",
}
# Headers in which proxies are known to forward certificates; reported when they are ignored.
CERTIFICATE_HEADERS = frozenset(
    {
        *_USUAL.values(), _CHAIN, "x-client-cert", "ssl-client-cert", "x-ssl-cert", "x-tls-client-cert", "x-arr-clientcert",
        "x-amzn-mtls-clientcert", "x-amzn-mtls-clientcert-leaf", "x-forwarded-tls-client-cert",
    }
)  # fmt: skip


class TrustedProxy:
    """A proxy that forwards its clients' certificates.

    It must verify that the client has the key (any TLS proxy that asks for a certificate does) and must overwrite or remove
    the header in every request.

    Args:
        networks: its addresses as the application sees the connection, for example `10.0.0.0/28`; `unix` for a server that
            listens on a Unix socket only. Whoever can connect from them can claim any certificate.
        form: the format of the certificate.
        header: the header; by default the usual one of the format.
        http2: it speaks HTTP/2 with the server, and lets no client upgrade a connection to HTTP/2 (h2c). Without it, requests by HTTP/2
            do not count as the proxy's, because behind an upgrade the client writes the headers.
        forwarded_for: it adds the address of its client to X-Forwarded-For, in every request. Log lines then have that address.

    Raises:
        ConfigurationError: `proxy.network`.

    Example:
        TrustedProxy("10.0.0.0/28", form=ProxyForm.NGINX)
    """

    def __init__(
        self,
        *networks: str,
        form: ProxyForm,
        header: str | None = None,
        http2: bool = False,
        forwarded_for: bool = False,
    ) -> None:
        self.form = form
        self._http2 = http2
        self.forwarded_for = forwarded_for
        self.header = (header or _USUAL[form]).lower()
        self._unix = UNIX in networks
        try:
            self._networks = tuple(_network(text) for text in networks if text != UNIX)
        except (ValueError, TypeError) as e:
            raise ConfigurationError("proxy.network", f"the network of a trusted proxy is malformed: {e}") from e
        if not networks:
            raise ConfigurationError("proxy.network", "a trusted proxy has no network")
        if everyone := [network for network in self._networks if not network.prefixlen]:
            message = f"{everyone[0]} contains every address, so whoever connects could claim any certificate: name the proxy's own"
            raise ConfigurationError("proxy.network", message)

    def forwards(self, source: Source) -> bool:
        """Whether the proxy wrote the headers of a request."""
        return self.has(source.address()) and (self._http2 or source.is_http1)

    def has(self, address: str | None) -> bool:
        """Whether a connection from this address, as in `Source.address`, comes from the proxy."""
        if address == UNIX:
            return self._unix
        try:
            parsed = ip_address(address or "")
        except ValueError:
            return False
        mapped = getattr(parsed, "ipv4_mapped", None)
        return any((mapped or parsed) in network for network in self._networks)

    def chain(self, source: Source) -> tuple[str, ...]:
        """Return PEM of the forwarded certificates, the client's first; empty if the proxy forwards none.

        Raises:
            FormatError: `certificate.malformed`, `certificate.too-large`.
        """
        try:
            value = _single(source, self.header)
            ders = _READERS[self.form](value) if value else ()
            if ders and self.form is ProxyForm.RFC9440:
                ders = (*ders, *_binaries(_single(source, _CHAIN), _CHAIN))
        except FormatError as e:
            if e.code.startswith("certificate."):
                raise
            raise _malformed(e.message) from e
        return tuple(map(ssl.DER_cert_to_PEM_cert, ders))

    @property
    def headers(self) -> frozenset[str]:
        """The headers that are read, lower case."""
        return frozenset({self.header, _CHAIN} if self.form is ProxyForm.RFC9440 else {self.header})


def address_headers(source: Source) -> tuple[str, ...]:
    """Return the headers from which the server may have taken the connection's address, lower case."""
    return tuple(name for name in FORWARDED if source.header_values(name))


def client_address(source: Source, proxies: Sequence[TrustedProxy], *, address_is_raw: bool) -> str:
    """Return the address of the client behind trusted proxies, for log lines.

    It is the address of the connection if X-Forwarded-For may be the client's own, or cannot be read; empty if that is unknown.

    Args:
        source: the request as the server passes it.
        proxies: the configured proxies.
        address_is_raw: see `peer_certificate`.
    """
    address, adding = source.address() or "", [proxy for proxy in proxies if proxy.forwarded_for]
    is_added = (address_is_raw or address == UNIX) and any(proxy.forwards(source) for proxy in adding)
    if not is_added or source.header_values("transfer-encoding"):  # it may be a trailer: see `require_length_announced`
        return address
    hops = [hop.strip(" \t") for value in source.header_values("x-forwarded-for") for hop in value.split(",")]
    with suppress(VerificationError):
        for hop in reversed(hops[-_MAX_HOPS:]):
            client = str(real_peer(without_port(hop)))
            if not any(proxy.has(client) for proxy in adding):
                return client
    return address


def _network(text: str) -> IPv4Network | IPv6Network:
    """Parse a network; IPv4 addresses within IPv6 (RFC 4291 section 2.5.5.2) become an IPv4 network."""
    if not isinstance(text, str):
        raise TypeError(f"{text!r} is not a string")  # ip_network accepts numbers
    network = ip_network(text)
    mapped = getattr(network.network_address, "ipv4_mapped", None)
    return network if mapped is None else ip_network(f"{mapped}/{network.prefixlen - 96}")


def _single(source: Source, name: str) -> str:
    values = source.header_values(name)
    if len(values) > 1:
        raise _malformed(f"{name} appears more than once")  # same code as values that a WSGI server joined
    value = values[0].strip(" \t") if values else ""
    if len(value) > MAX_HEADER:
        raise FormatError("certificate.too-large", f"a {name} header of {len(value)} characters is too long")
    return value


def _read_envoy(value: str) -> tuple[bytes, ...]:
    element = _element(value)
    chain = _pem_chain(element["chain"]) if element.get("chain") else ()
    leaf = _pem_chain(element["cert"])[:1] if element.get("cert") else chain[:1]
    if chain[:1] not in ((), leaf):
        raise _malformed("Chain does not begin with Cert")
    stated = element.get("hash")
    if leaf and stated and not (_HASH.fullmatch(stated) and sha256(leaf[0]).hexdigest() == stated.lower()):
        raise _malformed("Hash does not fit Cert")
    return (*leaf, *chain[1:])


def _element(value: str) -> Mapping[str, str]:
    """Parse the only element of Envoy's header.

    Envoy copies URIs and DNS names of the client's certificate into the header, so a client can inject an element. A key that the
    client adds to the first element is a duplicate or does not match the hash.
    """
    element: dict[str, str] = {}
    position, separator = 0, ";"
    while separator == ";":
        found = _PAIR.match(value, position)
        if found is None:
            raise _malformed(f"{shown(value[position:])} is not a key and value")
        key = found[1].lower()
        if key in element and key not in ("dns", "uri"):
            raise _malformed(f"an element has {shown(found[1])} twice")
        element[key] = found[3] if found[2] is None else re.sub(r"\\(.)", r"\1", found[2])
        position, separator = found.end(), found[4]
    if separator:
        raise _malformed("it has several elements, and the client may have written one: configure SANITIZE_SET")
    return element


def _read_rfc9440(value: str) -> tuple[bytes, ...]:
    found = _binaries(value, "client-cert")
    if len(found) != 1:
        raise _malformed("Client-Cert is not one byte sequence")
    return found


def _binaries(value: str, name: str) -> tuple[bytes, ...]:
    found = [_BINARY.fullmatch(item.strip(" \t")) for item in value.split(",")] if value else []
    if not all(found):
        raise _malformed(f"{name} is not made of byte sequences (RFC 8941)")
    return tuple(decode_base64(item[1], what=f"the {name} header") for item in found if item)


def _pem_chain(value: str) -> tuple[bytes, ...]:
    raw = unquote_to_bytes(value) if _URL_ENCODED.fullmatch(value) else b""
    found = _PEM.findall(raw)
    if not found or b"".join(found) != raw:
        raise _malformed("it is not percent-encoded PEM")
    return tuple(
        decode_base64(b"".join(pem.split(b"-----")[2].split()), what="the proxy's certificate header") for pem in found
    )


def _malformed(reason: str) -> FormatError:
    return FormatError("certificate.malformed", f"the proxy's certificate header cannot be read: {reason}")


_READERS: Mapping[ProxyForm, Callable[[str], tuple[bytes, ...]]] = {
    ProxyForm.NGINX: lambda value: _pem_chain(value)[:1],
    ProxyForm.HAPROXY: lambda value: (decode_base64(value, what="the proxy's certificate header"),),
    ProxyForm.ENVOY: _read_envoy,
    ProxyForm.RFC9440: _read_rfc9440,
}
