"""`--host`, `--public-url`, `--dns`: the addresses in links, codes and the server certificate."""

from __future__ import annotations

import socket
import ssl
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from raw_provider import Connect, RawProvider, approval_link, assert_refused, checked_sandbox, make_seal, tls_context

from refusals import refused
from tppkit.errors import ConfigurationError
from tppkit.sandbox import SandboxServer, SandboxSettings
from tppkit.testpki import Pki

PUBLIC = "bank.example.com"


def names_of(server: SandboxServer, bank_pki_folder: Path) -> set[str]:
    """The names in the server's certificate, which chains to the root of the PKI."""
    context = ssl.create_default_context(cafile=bank_pki_folder / "root.pem")
    context.load_cert_chain(bank_pki_folder / "qwac-chain.pem", bank_pki_folder / "qwac.key")
    port = server.ports["psd2"]
    with (
        socket.create_connection(("127.0.0.1", port)) as raw,
        context.wrap_socket(raw, server_hostname="localhost") as tls,
    ):
        certificate = tls.getpeercert()
    assert certificate is not None
    return {str(name) for _, name in certificate["subjectAltName"]}


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "0"])  # what a user gives
def test_a_wildcard_address_is_in_no_link(host: str, tmp_path: Path, bank_pki_folder: Path, connect: Connect) -> None:
    with checked_sandbox(SandboxSettings(tmp_path, pki=bank_pki_folder, host=host)) as server:
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
def test_links_have_the_public_url(
    url: str, psd2: str, approval: str, tmp_path: Path, bank_pki: Pki, bank_pki_folder: Path
) -> None:
    settings = SandboxSettings(tmp_path, pki=bank_pki_folder, host="0.0.0.0", public_url=url)
    with checked_sandbox(settings) as server:
        own = server.ports
        shown = server.addresses
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
    ],
)
def test_the_server_certificate_has_the_names_that_clients_use(
    public_url: str | None, dns: tuple[str, ...], names: set[str], tmp_path: Path, bank_pki_folder: Path
) -> None:
    settings = SandboxSettings(tmp_path, pki=bank_pki_folder, public_url=public_url, dns=dns)
    with checked_sandbox(settings) as server:
        assert names_of(server, bank_pki_folder) == {"localhost", "127.0.0.1", "0:0:0:0:0:0:0:1", *names}


@pytest.mark.parametrize(
    "name", ["", "a b", "https://bank.example.com", "-", "a" * 64, "bank.example.com:8443", "0.0.0.0", "::", "0::0"]
)
def test_a_name_that_no_client_can_use_is_refused(name: str, tmp_path: Path, bank_pki_folder: Path) -> None:
    with refused(ConfigurationError, "pki.dns-name"):
        SandboxServer(SandboxSettings(tmp_path, pki=bank_pki_folder, dns=(name,)))


@pytest.mark.parametrize("strict", [False, True])
def test_with_roots_only_a_client_must_send_its_intermediates(
    strict: bool, tmp_path: Path, bank_pki: Pki, bank_pki_folder: Path, connect: Connect
) -> None:
    settings = SandboxSettings(tmp_path, pki=bank_pki_folder, roots_only=True, strict=strict)
    alone = replace(bank_pki.qwac, chain=())
    with checked_sandbox(settings) as server:
        assert connect(server).initiate().status_code == 201
        if strict:
            with pytest.raises(httpx.TransportError, match="UNKNOWN_CA"):
                connect(server, qwac=alone).initiate()
        else:
            assert_refused(connect(server, qwac=alone).initiate(), 401, "CERTIFICATE_INVALID")
    with checked_sandbox(replace(settings, roots_only=False)) as server:
        assert connect(server, qwac=alone).initiate().status_code == 201


@pytest.mark.parametrize(
    "url", ["bank.example.com", "ftp://bank.example.com", "https://0.0.0.0:8443", "https://[::]", "https://u@bank.example.com",
            "https://bank.example.com/path", "https://bank.example.com:0", "https://bank.example.com:70000", "http://bank.example.com:1"],
)  # fmt: skip
def test_an_unusable_public_url_is_rejected(url: str, tmp_path: Path, bank_pki_folder: Path) -> None:
    with refused(ConfigurationError, "sandbox.public-url"):
        SandboxServer(SandboxSettings(tmp_path, pki=bank_pki_folder, public_url=url))
