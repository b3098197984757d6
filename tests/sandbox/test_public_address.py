"""`--host`, `--public-url`, `--dns`: the addresses in links, codes and the server certificate."""

from __future__ import annotations

import socket
from dataclasses import replace

import httpx
import pytest
from raw_provider import RawProvider, approval_link, assert_refused, make_seal, tls_context

from refusals import refused
from tppkit.errors import ConfigurationError
from tppkit.sandbox import SandboxServer, SandboxSettings
from tppkit.testpki import Pki

pytestmark = pytest.mark.slow

PUBLIC = "bank.example.com"


def names_of(server: SandboxServer, bank_pki: Pki) -> set[str]:
    """The names in the server's certificate, which chains to the root of the PKI."""
    with (
        socket.create_connection(("127.0.0.1", server.ports["psd2"])) as raw,
        tls_context(bank_pki.qwac, bank_pki).wrap_socket(raw, server_hostname="localhost") as tls,
    ):
        certificate = tls.getpeercert()
    assert certificate is not None
    return {str(name) for _, name in certificate["subjectAltName"]}


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "0"])  # what a user gives
def test_a_wildcard_address_is_in_no_link(host, open_bank, connect):
    with open_bank(host=host) as server:
        assert server.addresses.psd2_url.startswith("https://localhost:")
        assert approval_link(connect(server).new_payment()).startswith("http://localhost:")


@pytest.mark.parametrize(
    ("url", "psd2", "approval"),
    [
        (f"https://{PUBLIC}", f"https://{PUBLIC}:{{psd2}}", f"http://{PUBLIC}:{{approval}}"),
        (f"https://{PUBLIC}:9443", f"https://{PUBLIC}:9443", f"http://{PUBLIC}:9444"),
        (f"http://{PUBLIC}:9444/", f"https://{PUBLIC}:9443", f"http://{PUBLIC}:9444"),
        ("https://192.0.2.7:443", "https://192.0.2.7:443", "http://192.0.2.7:444"),
        ("https://[2001:db8::7]:9443", "https://[2001:db8::7]:9443", "http://[2001:db8::7]:9444"),
    ],
)
def test_links_have_the_public_url(url, psd2, approval, open_bank, bank_pki):
    with open_bank(host="0.0.0.0", public_url=url) as server:
        own, shown = server.ports, server.addresses
        assert (shown.psd2_url, shown.approval_url) == (psd2.format(**own), approval.format(**own))
        assert shown.control_url == f"http://localhost:{own['control']}"
        context = tls_context(bank_pki.qwac, bank_pki)
        with httpx.Client(base_url=f"https://localhost:{own['psd2']}", verify=context, trust_env=False) as http:
            payment = RawProvider(http, make_seal(bank_pki.qseal)).new_payment()
        assert approval_link(payment).startswith(f"{shown.approval_url}/approve/")


@pytest.mark.parametrize(
    ("public_url", "dns", "names"),
    [
        (None, (), set()),
        (f"https://{PUBLIC}", ("a.example.com", "*.b.example.com"), {PUBLIC, "a.example.com", "*.b.example.com"}),
        ("https://192.0.2.7", (), {"192.0.2.7"}),
        ("https://bank_sandbox", ("*.my_net",), {"bank_sandbox", "*.my_net"}),
    ],
)
def test_the_server_certificate_has_the_names_that_clients_use(public_url, dns, names, open_bank, bank_pki):
    with open_bank(public_url=public_url, dns=dns) as server:
        assert names_of(server, bank_pki) == {"localhost", "127.0.0.1", "0:0:0:0:0:0:0:1", *names}


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        *(({"dns": (name,)}, "pki.dns-name")
          for name in ("", "a b", f"https://{PUBLIC}", "-", "a" * 64, f"{PUBLIC}:8443", "0.0.0.0", "::", "0::0")),
        *(({"public_url": url}, "sandbox.public-url")
          for url in (PUBLIC, f"ftp://{PUBLIC}", "https://0.0.0.0:8443", "https://[::]", f"https://u@{PUBLIC}",
                      f"https://{PUBLIC}/path", f"https://{PUBLIC}:0", f"https://{PUBLIC}:70000", f"http://{PUBLIC}:1")),
    ],
    ids=str,
)  # fmt: skip
def test_a_name_or_url_that_no_client_can_use_is_refused(settings, code, tmp_path, bank_pki_folder):
    with refused(ConfigurationError, code):
        SandboxServer(SandboxSettings(tmp_path, pki=bank_pki_folder, **settings))


@pytest.mark.parametrize("strict", [False, True])
def test_with_roots_only_a_client_must_send_its_intermediates(strict, open_bank, bank_pki, connect):
    alone = replace(bank_pki.qwac, chain=())
    with open_bank(roots_only=True, strict=strict) as server:
        assert connect(server).initiate().status_code == 201
        if strict:
            with pytest.raises(httpx.TransportError, match="UNKNOWN_CA"):
                connect(server, qwac=alone).initiate()
        else:
            assert_refused(connect(server, qwac=alone).initiate(), 401, "CERTIFICATE_INVALID")
            assert [one.rule.name for one in server.sandbox.conformance.report().rules] == ["chain-incomplete"]
    with open_bank(strict=strict) as server:
        assert connect(server, qwac=alone).initiate().status_code == 201
