"""Each host of an interface against requests that schemathesis generates from the document which the control host shows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from legacy_provider import DAILY, ONA, ONA_PHONE
from raw_provider import done

from tppkit.protocol.endpoint import Interface
from tppkit.protocol.legacy.endpoints import LEGACY
from tppkit.protocol.psd2 import PSD2
from tppkit.sandbox import SandboxServer
from tppkit.sandbox.exchange import Exchange
from tppkit.seals import Message

pytestmark = pytest.mark.slow

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,response_headers_conformance"
EXAMPLES, SLOWEST_S, RUN_S = 30, 10, 900  # the run also writes everything to the log
TOKEN = "0123456789abcdefghij"


def shown(bank: SandboxServer, name: str) -> dict[str, Any]:
    url = f"{bank.addresses.control_url}/openapi/{name}.json"
    found: dict[str, Any] = httpx.get(url, trust_env=False, timeout=30).raise_for_status().json()
    return found


@pytest.mark.parametrize("name", ["psd2", "legacy", "gateway"])
def test_the_control_host_shows_the_document_of_the_reference_with_its_own_addresses(bank, name):
    found = shown(bank, name)
    assert found.pop("servers") == [{"url": getattr(bank.addresses, f"{name}_url")}]
    published = json.loads((Path(__file__).parents[2] / "docs" / "reference" / f"{name}-openapi.json").read_text())
    assert published.pop("servers") == [{"url": f"https://{name}.example"}]
    for row in (*found["paths"].values(), *published["paths"].values()):
        assert row.pop("servers", None) in (
            None,
            [{"url": bank.addresses.vault_url}],
            [{"url": "https://vault.example"}],
        )
    assert found == published


@pytest.mark.parametrize("host", ["gateway", "vault"])
def test_each_generated_request_of_a_merchant_has_a_documented_answer(bank, merchant, bank_pki_folder, tmp_path, host):
    held = merchant.own_checkout(transaction={"capture_mode": "manual"})
    link = merchant.link()
    known = {"order_id": held["id"], "transaction_id": held["transactions"][0]["id"], "payment_link_id": link["id"]}
    document = shown(bank, "gateway")
    document["paths"] = {
        path: row for path, row in document["paths"].items() if ("/cards/" in path) == (host == "vault")
    }
    for row in document["paths"].values():
        row.pop("servers", None)
    options = ["--auth", f"{merchant.api_key}:"]
    run(document, getattr(bank.addresses, f"{host}_url"), bank_pki_folder, tmp_path, *options, known=in_path(known))


def test_each_generated_request_of_a_legacy_provider_has_a_documented_answer(bank, legacy, bank_pki_folder, tmp_path):
    for kind in ("ais", "pis"):
        token = f"{TOKEN}{kind}"
        assert legacy.send("POST", f"/{kind}/{token}", {"acc": ONA_PHONE}).status_code == 200
        legacy.control(f"/legacy/access/{token}/approve", {"customer": ONA, "iban": DAILY})
    options = ["--header", f"Authorization: {legacy.key}"]
    seen: list[Exchange] = []
    bank.sandbox.observers.append(seen.append)
    known = {"path.access_token": f"{TOKEN}ais"}
    only = {name: {"path.access_token": f"{TOKEN}pis"} for name in ("request_payment_access", "pay")}
    run(shown(bank, "legacy"), bank.addresses.legacy_url, bank_pki_folder, tmp_path, *options, known=known, only=only)
    require_successes(seen, LEGACY)


def test_each_generated_request_of_a_psd2_provider_has_a_documented_answer(bank, tpp, bank_pki_folder, tmp_path):
    payment = tpp.new_payment()
    wanted = {"access": {"allPsd2": "allAccounts"}, "validUntil": "2030-12-31", "frequencyPerDay": 10_000}
    consents = []
    for _ in range(2):  # one is deleted
        message = Message("POST", "/psd2/v1/consents", tpp.message().headers, json.dumps(wanted).encode())
        consents.append(tpp.send(tpp.sealed(message)).json()["consentId"])
        done(bank, f"/consents/{consents[-1]}/approve")
    asked = Message("GET", "/psd2/v1/accounts", (*tpp.message().headers[:1], ("Consent-ID", consents[0])))
    resource = tpp.send(asked).json()["accounts"][0]["resourceId"]
    pki = bank_pki_folder
    options = ["--request-cert", pki / "qwac.pem", "--request-cert-key", pki / "qwac.key"]
    known = {"payment_id": payment["paymentId"], "consent_id": consents[1], "resource_id": resource}
    seen: list[Exchange] = []
    bank.sandbox.observers.append(seen.append)
    run(
        shown(bank, "psd2"), bank.addresses.psd2_url, pki, tmp_path, *options,
        known={**in_path(known), "header.Consent-ID": consents[0]}, examples=5,
        SCHEMATHESIS_HOOKS="sealing_hooks", SEALING_PKI=str(pki), PYTHONPATH=str(Path(__file__).parent),
    )  # fmt: skip
    require_successes(seen, PSD2)


def in_path(values: dict[str, str]) -> dict[str, str]:
    return {f"path.{name}": one for name, one in values.items()}


def require_successes(seen: list[Exchange], interface: Interface) -> None:
    """Each endpoint was also reached by a request that it accepts."""
    found = {(one.row, one.status) for one in seen}
    assert {(row.name, row.success) for row in interface.endpoints} <= found


def run(
    document: dict[str, Any], url: str, pki: Path, folder: Path, *options: object, known: dict[str, str],
    only: dict[str, dict[str, str]] | None = None, examples: int = EXAMPLES, **environment: str,
) -> None:  # fmt: skip
    """Run schemathesis. Random ids are unknown, so half the requests have those of `known`, and of `only` for one operation."""
    pytest.importorskip("schemathesis", reason="needs schemathesis, which the dev extra installs")
    tables = ["[parameters]", *(f'"{name}" = "{one}"' for name, one in known.items())]
    for operation, values in (only or {}).items():
        tables += ["[[operations]]", f'include-operation-id = "{operation}"', "[operations.parameters]"]
        tables += [f'"{name}" = "{one}"' for name, one in values.items()]
    settings, schema = folder / "schemathesis.toml", folder / "openapi.json"
    settings.write_text("\n".join(tables))
    schema.write_text(json.dumps(document))
    command = [
        sys.executable, "-m", "schemathesis.cli", "--config-file", settings, "run", schema, "--url", url, "--tls-verify",
        pki / "root.pem", *options, "--checks", CHECKS, "--max-examples", examples, "--max-response-time", SLOWEST_S,
        "--generation-deterministic", "--no-color",
    ]  # fmt: skip
    found = subprocess.run(
        [str(word) for word in command], cwd=folder, capture_output=True, text=True, timeout=RUN_S, check=False,
        env=os.environ | environment,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout[-6000:] + found.stderr[-2000:]
