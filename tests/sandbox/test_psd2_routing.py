"""The sandbox accepts a call exactly if `authorize` accepts it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tppkit.errors import TppkitError
from tppkit.protocol.psd2 import PSD2
from tppkit.sandbox import SandboxSettings
from tppkit.sandbox.sandbox import SandboxHosts
from tppkit.testpki import Issued, Pki, certificate_pem, make_provider
from tppkit.web import authorize

ROWS = list(PSD2.endpoints)
METHODS = st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD", "get", "BREW"])
PARAMETERS = st.text(st.characters(max_codepoint=0x17F), min_size=1, max_size=8)
GOOD = st.builds(
    lambda row, product, id_: row.target(product=product, payment_id=id_, consent_id=id_, resource_id=id_),
    st.sampled_from(ROWS), st.just("sepa-credit-transfers") | PARAMETERS, PARAMETERS,
)  # fmt: skip
GARBAGE = st.text(st.characters(max_codepoint=0xFF, exclude_characters="?"), max_size=20)
PIECES = st.sampled_from(
    ["/", "//", ".", "..", "/..", "/.", "%2F", "%2e", "%", "status", "#", " ", "PSD2", "\x00", "\n"]
)


@st.composite
def nearly_good(draw: st.DrawFn) -> str:
    """A path of an endpoint with a piece put in, or cut out, somewhere."""
    path = draw(GOOD)
    begin = draw(st.integers(0, len(path)))
    end = draw(st.integers(begin, min(len(path), begin + 4)))
    return path[:begin] + draw(PIECES | st.just("")) + path[end:]


@pytest.fixture(scope="module")
def sandbox(bank_pki_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxHosts]:
    settings = SandboxSettings(tmp_path_factory.mktemp("routing"), pki=bank_pki_folder)
    with SandboxHosts(settings) as opened:
        yield opened


@pytest.fixture(scope="module")
def reader(bank_pki: Pki) -> Issued:
    return bank_pki.issue_qwac(make_provider(roles=("PSP_AI",)), label="ai-qwac")


def answered(sandbox: SandboxHosts, caller: Issued, method: str, path: str) -> tuple[int, dict[str, str], str | None]:
    """Status, headers and our code of what the PSD2 host answers to a request with this target."""
    raw = path.encode("latin-1")
    raw_path, _, query = raw.partition(b"?")
    decoded = unquote_to_bytes(raw_path).decode("utf-8", "surrogateescape")
    scope = {
        "type": "http", "method": method, "path": decoded, "raw_path": raw_path, "query_string": query,
        "headers": [(b"x-request-id", str(uuid4()).encode())],
        "extensions": {
            "tppkit.raw_target": {"target": raw},
            "tls": {"client_cert_chain": [certificate_pem(c).decode() for c in (caller.certificate, *caller.chain)]},
        },
    }  # fmt: skip
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(event: dict[str, Any]) -> None:
        sent.append(event)

    asyncio.run(sandbox.hosts["psd2"](scope, receive, send))  # type: ignore[arg-type]
    start, *parts = sent
    text = json.loads(b"".join(part["body"] for part in parts))["tppMessages"][0]["text"]
    code = re.search(r"\(([a-z0-9.-]+)\)\Z", text)
    headers = {name.decode(): value.decode() for name, value in start["headers"]}
    return start["status"], headers, code and code.group(1)


def assert_agreement(sandbox: SandboxHosts, caller: Issued, method: str, path: str) -> None:
    ours = None
    try:
        authorize(caller.certificate, PSD2, method, path)
    except TppkitError as e:
        ours = e.code
    status, headers, code = answered(sandbox, caller, method, path)
    if ours is None:  # the sandbox goes on, and misses what the endpoint needs
        assert code in {
            "signature.missing", "payment.unknown", "product.unknown", "consent.unknown", "header.consent-id",
        }, (status, code)  # fmt: skip
    elif code != "message.malformed":  # a target that is not a path is rejected before it is routed
        assert code == ours
    assert status >= 400
    assert headers.get("allow", "") == (", ".join(PSD2.methods(path)) if code == "endpoint.method" else "")


def test_both_agree_about_every_endpoint_and_method(sandbox, bank_pki, reader):
    for row in ROWS:
        path = row.target(product="sepa-credit-transfers", payment_id="1", consent_id="1", resource_id="1")
        for method in ("GET", "POST", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS"):
            for caller in (bank_pki.qwac, reader):
                assert_agreement(sandbox, caller, method, path)


@given(method=METHODS, path=GOOD | nearly_good() | GARBAGE, is_reader=st.booleans())
def test_both_agree_on_every_question(sandbox, bank_pki, reader, method, path, is_reader):
    assert_agreement(sandbox, reader if is_reader else bank_pki.qwac, method, path)
