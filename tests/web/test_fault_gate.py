"""What the gate answers to each fault of the catalogue is what the manifest states, behind a real nginx too."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from asgi import EVERY_PATH, request, scope_of, sealed
from serving import client_context, free_port, run_nginx, run_uvicorn

from tppkit._clock import parse_time, utc_now
from tppkit.certificates import EidasCertificate, load_certificates
from tppkit.certificates.rules import RULES
from tppkit.errors import Severity, TppkitError
from tppkit.seals import KeySigner, Seal, SealPolicy
from tppkit.testpki import Pki, certificate_pem, make_pki, write_pki
from tppkit.trust import PathVerifier, RevocationChecker, RevocationEvidence, RevocationPolicy, make_anchors
from tppkit.trust.revocation.ocsp_response import parse_ocsp_response
from tppkit.trust.revocation.revocation_list import parse_crl
from tppkit.web import AsgiSource, ProxyForm, QwacPolicy, SealGate, TrustedProxy

Entry = dict[str, Any]


@pytest.fixture(scope="module")
def written(pki: Pki, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Entry]]:
    """A folder with the catalogue, and its faults."""
    folder = tmp_path_factory.mktemp("gate") / "pki"
    entries = write_pki(pki, folder, with_faults=True)["files"]
    return folder, [entry for entry in entries if entry["kind"] == "fault"]


def answer(pki: Pki, folder: Path, fault: Entry) -> str:
    """What a gate answers that has the CRLs and OCSP responses of the fault: a code, or `admitted`."""
    at, valid = parse_time(fault["at"]), PathVerifier(make_anchors(pki.authorities))
    evidence = RevocationEvidence(
        crls=tuple(parse_crl((folder / name).read_bytes()) for name in fault["crl"]),
        ocsp=tuple(parse_ocsp_response((folder / name).read_bytes()) for name in fault["ocsp"]),
    )
    revocation = None
    if fault["crl"] or fault["ocsp"]:
        revocation = RevocationChecker(policy=RevocationPolicy.HARD_FAIL_LEAF, evidence=evidence, now=lambda: at)
    paths = PathVerifier(make_anchors(pki.authorities), revocation=revocation)
    chain = load_certificates(folder / fault["path"])
    is_seal = fault["as"] == "qseal"
    gate = SealGate(
        EVERY_PATH, qwacs=QwacPolicy(valid if is_seal else paths), seals=SealPolicy(paths), now=lambda: at, brief=False
    )
    try:
        if is_seal:
            message = sealed(Seal(chain[0], KeySigner(pki.qseal.key)))
            source = AsgiSource(scope_of(message, pki.qwac))
            pending = gate.open(source, gate.route(source).row)
            pending.update(message.body)
            pending.finish()
        else:
            tls = {
                "client_cert_chain": tuple(certificate_pem(one).decode() for one in chain),
                "client_cert_error": None,
            }
            gate.open(AsgiSource(scope_of(request(), None, extensions={"tls": tls})), None)
    except TppkitError as e:
        return e.code
    return "admitted"


def test_the_manifest_states_what_the_gate_answers(pki, written):
    folder, faults = written
    assert len(faults) >= 80
    stated = {fault["path"]: fault["gate"] for fault in faults}
    assert {fault["path"]: answer(pki, folder, fault) for fault in faults} == stated


def test_a_gate_admits_no_more_than_the_page_says(written):
    page = (Path(__file__).parents[2] / "docs/reference/gate.md").read_text("utf-8")
    (section,) = re.findall(r"^## What the gate does not judge\n(.*?)^## ", page, re.DOTALL | re.MULTILINE)
    stated = {*re.findall(r"`([a-z-]+\.[a-z0-9-]+)`", section)}
    assert stated >= {rule.code for rule in RULES if rule.severity is Severity.ERROR and not rule.essential}
    admitted = {code for fault in written[1] if fault["gate"] == "admitted" for code in fault["expected"]}
    assert stated >= admitted - {"crl.undated", "revocation.unknown"}


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> tuple[Pki, Path, list[Entry]]:
    """A PKI that begins today, as TLS asks the machine's clock; its folder and its faults."""
    pki, folder = make_pki(at=utc_now(), seed=2), tmp_path_factory.mktemp("bank") / "pki"
    return pki, folder, [e for e in write_pki(pki, folder, with_faults=True)["files"] if e["kind"] == "fault"]


@pytest.fixture(scope="module")
def url(bank: tuple[Pki, Path, list[Entry]], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """nginx with the server block of the README, before a gate that reports its codes."""
    pki, folder, _ = bank
    (block,) = re.findall(r"^    server \{\n(?:    .*\n)*?    \}\n", (folder / "README.md").read_text(), re.MULTILINE)
    paths = PathVerifier(make_anchors(pki.authorities))
    proxies = [TrustedProxy("127.0.0.1", form=ProxyForm.NGINX)]
    gate = SealGate(
        EVERY_PATH, qwacs=QwacPolicy(paths), seals=SealPolicy(paths), trusted_proxies=proxies, address_is_raw=True
    )

    async def codes(scope: Any, receive: Any, send: Any) -> None:
        try:
            gate.open(AsgiSource(scope), None)
            code = b"admitted"
        except TppkitError as e:
            code = e.code.encode()
        headers = [(b"gate", code), (b"target", scope["raw_path"] + b"?" + scope["query_string"])]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    with run_uvicorn(codes) as upstream:
        port = free_port()
        for given, ours in {"/DIR": str(folder), ":8443": f":{port}", ":8080": f":{upstream}"}.items():
            block = block.replace(given, ours)
        with run_nginx(block, port=port, folder=tmp_path_factory.mktemp("nginx")):
            yield f"https://localhost:{port}"


def behind_nginx(pki: Pki, chain: Sequence[EidasCertificate], gate: str) -> str:
    """What a gate answers that knows the authorities of the PKI only, as nginx passes none on, and nothing about revocation."""
    known = [one.certificate for one in pki.issued]
    if any(authority not in known for authority in chain[1:]):
        return "trust.no-path"
    return "admitted" if gate.startswith("revocation.") else gate


# What no client of OpenSSL presents: the first key is in no file, the other two certificates it calls invalid.
NOT_PRESENTED = {f"faults/{name}.pem" for name in ("weak-key", "malformed-extension", "extension-twice")}


@pytest.mark.slow
def test_every_fault_that_a_client_can_present_reaches_the_gate_behind_nginx(bank, url):
    pki, folder, faults = bank
    target, unlike, not_presented = "/psd2/v1/a%2Fb//%7Ec/%2e/d?x=%2F&y=+", {}, set()
    for fault in [fault for fault in faults if fault["as"] == "qwac"]:
        context = client_context(pki, None)
        context.set_ciphers("DEFAULT@SECLEVEL=0")  # to present a signature with SHA-1
        try:
            context.load_cert_chain(folder / fault["path"], folder / (fault["key_path"] or "qwac.key"))
        except ssl.SSLError:
            not_presented.add(fault["path"])
            continue
        with httpx.Client(verify=context, trust_env=False) as client:
            told = client.get(url + target)
        answered = (told.status_code, told.headers.get("gate"), told.headers.get("target"))
        expected = (200, behind_nginx(pki, load_certificates(folder / fault["path"]), fault["gate"]), target)
        if answered != expected:
            unlike[fault["path"]] = (answered, expected)
    assert unlike == {}
    assert not_presented == NOT_PRESENTED
