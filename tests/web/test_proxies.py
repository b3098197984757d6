"""The certificate of a proxy's client: trusted from the proxy that was named, in its own form, and from nobody else."""

from __future__ import annotations

import socket
from contextlib import suppress
from hashlib import sha256
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from tppkit import web
from tppkit._encoding import encode_base64
from tppkit.certificates import EidasCertificate
from tppkit.errors import CertificateRejected, ConfigurationError, FormatError
from tppkit.testpki import Pki, certificate_pem
from tppkit.web import AsgiSource, PeerCertificate, ProxyForm, TrustedProxy, WsgiSource

PROXY = "10.0.0.5"
STRANGER = "203.0.113.9"


def peer_certificate(request: Any, **settings: Any) -> PeerCertificate:
    source = WsgiSource(request) if "REQUEST_METHOD" in request else AsgiSource(request)
    return web.peer_certificate(source, **settings)


def pem(certificate: EidasCertificate) -> str:
    return certificate_pem(certificate).decode()


def scope(*headers: tuple[str, str], address: str | None = PROXY, port: int = 4000, **more: Any) -> dict[str, Any]:
    fields = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers]
    return {"type": "http", "headers": fields, "client": None if address is None else (address, port), **more}


def environ(*headers: tuple[str, str], address: str = PROXY, **more: Any) -> dict[str, Any]:
    fields = {"HTTP_" + name.upper().replace("-", "_"): value for name, value in headers}
    return {"REQUEST_METHOD": "GET", "REMOTE_ADDR": address, **fields, **more}


def proxy(form: ProxyForm, **settings: Any) -> list[TrustedProxy]:
    return [TrustedProxy("10.0.0.0/24", "2001:db8::/64", form=form, **settings)]


@pytest.fixture(scope="session")
def forwarded(pki: Pki) -> dict[ProxyForm, tuple[tuple[str, str], ...]]:
    """What each proxy sends for the QWAC of `pki`."""
    qwac = pki.qwac.certificate
    escaped = quote(pem(qwac), safe="")
    xfcc = f'By=spiffe://bank;Hash={sha256(qwac.der).hexdigest()};Subject="CN=a,O=\\"b;c\\"";URI=;Cert="{escaped}"'
    return {
        ProxyForm.NGINX: (("X-SSL-Client-Cert", escaped),),
        ProxyForm.HAPROXY: (("X-SSL-Client-Cert", encode_base64(qwac.der)),),
        ProxyForm.ENVOY: (("X-Forwarded-Client-Cert", xfcc),),
        ProxyForm.RFC9440: (
            ("Client-Cert", f":{encode_base64(qwac.der)}:"),
            ("Client-Cert-Chain", f":{encode_base64(pki.qwac_ca.certificate.der)}:"),
        ),
    }  # fmt: skip


Forwarded = dict[ProxyForm, tuple[tuple[str, str], ...]]


@pytest.mark.parametrize("form", ProxyForm)
@pytest.mark.parametrize("make", [scope, environ], ids=["asgi", "wsgi"])
def test_the_named_proxy_is_trusted(form, make, forwarded, pki):
    found = peer_certificate(make(*forwarded[form]), trusted_proxies=proxy(form))
    assert (found.source, found.tls_error, found.ignored) == (form.value, None, ())
    sent = [pki.qwac.certificate, pki.qwac_ca.certificate][: 2 if form is ProxyForm.RFC9440 else 1]
    assert [EidasCertificate.from_pem(text) for text in found.chain_pem] == sent


def test_the_chain_of_envoy_begins_with_its_certificate_and_its_long_headers_cost_no_time(pki):
    chain = quote(pem(pki.qwac.certificate) + pem(pki.qwac_ca.certificate), safe="")
    for value in (f"Chain={chain}", f"cert={quote(pem(pki.qwac.certificate))};chain={chain}"):
        found = peer_certificate(scope(("X-Forwarded-Client-Cert", value)), trusted_proxies=proxy(ProxyForm.ENVOY))
        assert len(found.chain_pem) == 2
    other = f"Cert={quote(pem(pki.server.certificate))};Chain={chain}"
    with pytest.raises(FormatError):
        peer_certificate(scope(("X-Forwarded-Client-Cert", other)), trusted_proxies=proxy(ProxyForm.ENVOY))
    for value in ("URI=a;" * 20_000, 'URI="' + '\\"' * 40_000, "URI=" + " " * 60_000, "URI=a;" * 10_000 + "x"):
        with pytest.raises((FormatError, CertificateRejected)):
            peer_certificate(scope(("X-Forwarded-Client-Cert", value)), trusted_proxies=proxy(ProxyForm.ENVOY))


@pytest.mark.parametrize(
    "added",
    [
        ",Cert={victim}", ", Hash={hash};Cert={victim}", ";Cert={victim}", ";cert={victim}", ";Hash={hash};Cert={victim}",
        ";Chain={victim}", ";CHAIN={victim};HASH={hash}", '",Cert="{victim}', ",", ",By=a", ";", "\n,Cert={victim}", "\\,Cert={victim}",
    ],
)  # fmt: skip
@pytest.mark.parametrize("set_by_envoy", ["Cert", "Chain", None])
def test_what_a_client_writes_into_envoys_header_identifies_no_caller(added, set_by_envoy, pki):
    """Envoy writes URIs of the client's certificate as they are."""
    victim, client = pki.qwac.certificate, pki.server.certificate
    answer = f"Hash={sha256(client.der).hexdigest()};"
    if set_by_envoy is not None:
        answer += f'{set_by_envoy}="{quote(pem(client), safe="")}";'
    hidden = added.format(victim=quote(pem(victim), safe=""), hash=sha256(victim.der).hexdigest())
    with refused(FormatError, "certificate.malformed"):
        peer_certificate(
            scope(("X-Forwarded-Client-Cert", f"{answer}URI=spiffe://a{hidden}")),
            trusted_proxies=proxy(ProxyForm.ENVOY),
        )


@pytest.mark.parametrize("make", [scope, environ], ids=["asgi", "wsgi"])
def test_a_header_that_may_be_the_clients_trailer_is_not_trusted(make, forwarded, pki):
    chunked = (("Transfer-Encoding", "chunked"), *forwarded[ProxyForm.RFC9440])
    with refused(FormatError, "message.no-length"):
        peer_certificate(make(*chunked), trusted_proxies=proxy(ProxyForm.RFC9440))
    own = {"tls": {"client_cert_chain": (pem(pki.qwac.certificate),), "client_cert_error": None}}
    assert peer_certificate(scope(*chunked, address=STRANGER, extensions=own)).source == "asgi-tls"


@pytest.mark.parametrize("form", ProxyForm)
@pytest.mark.parametrize("make", [scope, environ], ids=["asgi", "wsgi"])
@pytest.mark.parametrize("address", [STRANGER, "10.0.1.5", "::ffff:203.0.113.9", "2001:db8:0:1::1", "not an address"])
def test_headers_from_elsewhere_are_ignored_and_reported(form, make, address, forwarded):
    with pytest.raises(CertificateRejected) as caught:
        peer_certificate(make(*forwarded[form], address=address), trusted_proxies=proxy(form))
    assert caught.value.code == "certificate.missing"
    assert forwarded[form][0][0].lower() in caught.value.message
    assert address in caught.value.message


@pytest.mark.parametrize("network", ["10.0.0.0/24", "::ffff:10.0.0.0/120", "::ffff:10.0.0.5", "2001:db8::/64"])
def test_an_address_and_a_network_in_any_writing_are_the_proxys(network, forwarded):
    named = [TrustedProxy(network, form=ProxyForm.NGINX)]
    for address in ("2001:db8::7",) if "db8" in network else ("10.0.0.5", "::ffff:10.0.0.5"):
        source = scope(*forwarded[ProxyForm.NGINX], address=address)
        assert peer_certificate(source, trusted_proxies=named).source == "nginx"


def test_a_header_counts_only_from_a_proxy_that_is_named_by_the_connections_own_address(forwarded, pki):
    for headers in forwarded.values():
        with pytest.raises(CertificateRejected):
            peer_certificate(scope(*headers))
    # A server that trusts X-Forwarded-For writes the address it found there, with the port 0.
    with pytest.raises(CertificateRejected):
        peer_certificate(scope(*forwarded[ProxyForm.NGINX], port=0), trusted_proxies=proxy(ProxyForm.NGINX))
    fixed = environ(*forwarded[ProxyForm.NGINX]) | {"werkzeug.proxy_fix.orig": {"REMOTE_ADDR": STRANGER}}
    with pytest.raises(CertificateRejected):
        peer_certificate(fixed, trusted_proxies=proxy(ProxyForm.NGINX))
    tls = {"tls": {"client_cert_chain": (pem(pki.qwac.certificate),)}}
    with pytest.raises(CertificateRejected):
        peer_certificate(scope(extensions=tls), trusted_proxies=proxy(ProxyForm.NGINX))


def test_a_spoofed_header_beside_a_real_connection_is_ignored_and_reported(forwarded, pki):
    tls = {"tls": {"client_cert_chain": (pem(pki.server.certificate),), "client_cert_error": None}}
    source = scope(*forwarded[ProxyForm.RFC9440], address=STRANGER, extensions=tls)
    found = peer_certificate(source, trusted_proxies=proxy(ProxyForm.NGINX))
    ignored = ("client-cert", "client-cert-chain")
    assert found == PeerCertificate((pem(pki.server.certificate),), None, "asgi-tls", ignored)


def test_of_a_trusted_proxy_only_the_header_that_it_overwrites_counts(forwarded, pki):
    # nginx removes X-SSL-Client-Cert of its clients, and lets every other header through.
    with pytest.raises(CertificateRejected) as caught:
        peer_certificate(scope(*forwarded[ProxyForm.RFC9440]), trusted_proxies=proxy(ProxyForm.NGINX))
    assert "client-cert, client-cert-chain" in caught.value.message
    both = (*forwarded[ProxyForm.NGINX], ("X-Forwarded-Client-Cert", "Cert=x"))
    assert peer_certificate(scope(*both), trusted_proxies=proxy(ProxyForm.NGINX)).ignored == (
        "x-forwarded-client-cert",
    )


@pytest.mark.parametrize("name", ["X-Forwarded-For", "Forwarded", "X-Real-IP"])
@pytest.mark.parametrize("make", [scope, environ], ids=["asgi", "wsgi"])
def test_an_address_that_may_come_from_a_header_is_trusted_only_if_the_server_is_configured_to_read_none(
    name, make, forwarded
):
    source = make(*forwarded[ProxyForm.NGINX], (name, "10.0.0.5:4444"))
    with pytest.raises(CertificateRejected) as caught:
        peer_certificate(source, trusted_proxies=proxy(ProxyForm.NGINX))
    assert f"an address that may come from {name.lower()}: see address_is_raw" in caught.value.message
    trusted = peer_certificate(source, trusted_proxies=proxy(ProxyForm.NGINX), address_is_raw=True)
    assert trusted.source == "nginx"


def test_a_unix_socket_is_trusted_only_by_name_and_nothing_else_is_one(forwarded):
    headers = (*forwarded[ProxyForm.NGINX], ("X-Forwarded-For", "203.0.113.9"))
    named = [TrustedProxy("unix", form=ProxyForm.NGINX)]
    listening, other = socket.socketpair(socket.AF_UNIX)
    listening.close()
    other.close()
    on_socket = environ(*headers, address="", **{"gunicorn.socket": listening})
    for source in (scope(*headers, address=None, server=("/run/app.sock", None)), on_socket):
        assert peer_certificate(source, trusted_proxies=named).source == "nginx"
        with pytest.raises(CertificateRejected):
            peer_certificate(source, trusted_proxies=proxy(ProxyForm.NGINX))
    with pytest.raises(CertificateRejected):
        peer_certificate(scope(*headers), trusted_proxies=named)
    # waitress writes what stood in X-Forwarded-For into REMOTE_ADDR, and an ASGI server may do likewise.
    headers = forwarded[ProxyForm.NGINX]
    with socket.socket(socket.AF_INET) as tcp:
        for source in (
            scope(*headers, address=None),
            scope(*headers, address=None, server=None),
            scope(*headers, address=None, server=("127.0.0.1", 8000)),
            scope(*headers, address="unix"),
            environ(*headers, address=""),
            environ(*headers, address="", **{"gunicorn.socket": tcp}),
            environ(*headers, address="unix"),
            environ(*headers) | {"werkzeug.proxy_fix.orig": {"REMOTE_ADDR": "unix"}},
        ):
            with pytest.raises(CertificateRejected, match="x-ssl-client-cert from"):
                peer_certificate(source, trusted_proxies=named, address_is_raw=True)


def test_a_request_by_http2_is_the_proxys_only_where_it_was_configured(forwarded):
    headers = forwarded[ProxyForm.HAPROXY]
    for source in (scope(*headers, http_version="2"), environ(*headers, SERVER_PROTOCOL="HTTP/2")):
        with pytest.raises(CertificateRejected, match="by HTTP/2: see http2"):
            peer_certificate(source, trusted_proxies=proxy(ProxyForm.HAPROXY))
        configured = proxy(ProxyForm.HAPROXY, http2=True)
        assert peer_certificate(source, trusted_proxies=configured).source == "haproxy"


@pytest.mark.parametrize("make", [scope, environ], ids=["asgi", "wsgi"])
def test_a_header_of_another_name_is_read_where_it_was_configured(make, forwarded):
    ((_, value),) = forwarded[ProxyForm.HAPROXY]
    configured, renamed = proxy(ProxyForm.HAPROXY, header="X-TPP-Cert"), ("X-TPP-Cert", value)
    assert peer_certificate(make(renamed), trusted_proxies=configured).source == "haproxy"
    with pytest.raises(CertificateRejected):
        peer_certificate(make(("X-SSL-Client-Cert", value)), trusted_proxies=configured)
    with pytest.raises(CertificateRejected, match=f"ignored: x-tpp-cert from {STRANGER}"):
        peer_certificate(make(renamed, address=STRANGER), trusted_proxies=configured)


@pytest.mark.parametrize("form", ProxyForm)
def test_a_header_that_appears_twice_is_refused_and_an_empty_one_is_none(form, forwarded):
    first = forwarded[form][0]
    with refused(FormatError, "certificate.malformed"):
        peer_certificate(scope(first, first), trusted_proxies=proxy(form))
    joined = environ((first[0], f"{first[1]},{first[1]}"))
    with refused(FormatError, "certificate.malformed"):
        peer_certificate(joined, trusted_proxies=proxy(form))
    for empty in ("", "  "):
        with refused(CertificateRejected, "certificate.missing"):
            peer_certificate(scope((first[0], empty)), trusted_proxies=proxy(form))


@pytest.mark.parametrize(
    ("form", "value"),
    [
        (ProxyForm.NGINX, "-----BEGIN%20CERTIFICATE-----"),
        (ProxyForm.NGINX, "-----BEGIN CERTIFICATE----- AAAA -----END CERTIFICATE-----"),
        (ProxyForm.NGINX, "%zz"),
        (ProxyForm.NGINX, "-----BEGIN%20CERTIFICATE-----AAAA-----END%20CERTIFICATE-----more"),
        *((ProxyForm.HAPROXY, value) for value in ("not base64!", "AAA", "A" * 70_000)),
        *(
            (ProxyForm.ENVOY, value)
            for value in ("Hash=ours;Cert=theirs", "Cert", 'Cert="AAAA', "By=a;", "By=a;By=b", "By=a,")
        ),
        *((ProxyForm.RFC9440, value) for value in ("AAAA", ":AAAA:, :AAAA:", ":AAA:", ":AAAA:;a=1")),
    ],
)
def test_a_proxys_header_in_another_form_is_refused_as_a_certificate(form, value, pki):
    value = value.replace("ours", sha256(pki.server.certificate.der).hexdigest())
    value = value.replace("theirs", quote(pem(pki.qwac.certificate), safe=""))
    code = "certificate.too-large" if len(value) > 64 * 1024 else "certificate.malformed"
    with refused(FormatError, code):
        peer_certificate(scope((proxy(form)[0].header, value)), trusted_proxies=proxy(form))


@pytest.mark.parametrize(
    "name",
    ["X_SSL_Client_Cert", "X-ARR-ClientCert", "X-Amzn-Mtls-Clientcert", "X-Forwarded-Tls-Client-Cert"],
)
def test_a_certificate_of_any_usual_name_is_reported(name, pki):
    tls = {"tls": {"client_cert_chain": (pem(pki.qwac.certificate),)}}
    found = peer_certificate(scope((name, "x"), address=STRANGER, extensions=tls))
    assert found.ignored == (name.lower(),)


@pytest.mark.parametrize(
    "networks",
    [
        (5,),
        (b"1234",),
        (),
        ("example.com",),
        ("10.0.0.1/8",),
        ("10.0.0.0/33",),
        ("0.0.0.0/0",),
        ("10.0.0.5", "::/0"),
        ("::ffff:0:0/96",),
    ],
)
def test_what_is_not_a_network_cannot_be_trusted(networks):
    with refused(ConfigurationError, "proxy.network"):
        TrustedProxy(*networks, form=ProxyForm.NGINX)


# Headers of Envoy's form, more or less.
ELEMENTS = st.from_regex(r'([A-Z][a-z]+=("([^"\\]|\\.)*"|[a-z%0-9]*)[;,]? ?){0,4}', fullmatch=True)


@given(form=st.sampled_from(ProxyForm), value=st.text(max_size=80) | ELEMENTS)
def test_only_our_errors_escape_whatever_the_proxy_sends(form, value):
    value = value.encode("latin-1", "replace").decode("latin-1")
    with suppress(FormatError, CertificateRejected):
        peer_certificate(scope((proxy(form)[0].header, value)), trusted_proxies=proxy(form))
