"""The gateway and its vault against requests that schemathesis generates from their OpenAPI document."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "gateway-openapi.json"
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
EXAMPLES, SLOWEST_S, RUN_S = 30, 10, 900  # the run also writes everything to the log


@pytest.mark.parametrize("host", ["gateway", "vault"])
def test_each_generated_request_has_a_documented_answer_in_bounded_time(
    bank, merchant, bank_pki_folder, tmp_path, host
):
    pytest.importorskip("schemathesis", reason="needs schemathesis, which the dev extra installs")
    held = merchant.own_checkout(transaction={"capture_mode": "manual"})
    link = merchant.link()
    # Most random ids are unknown, so half the requests have those of an order and a link.
    known = {"order_id": held["id"], "transaction_id": held["transactions"][0]["id"], "payment_link_id": link["id"]}
    settings = tmp_path / "schemathesis.toml"
    settings.write_text("[parameters]\n" + "".join(f'"path.{name}" = "{id_}"\n' for name, id_ in known.items()))
    document = json.loads(DOCUMENT.read_text())
    document["paths"] = {
        path: row for path, row in document["paths"].items() if ("/cards/" in path) == (host == "vault")
    }
    for row in document["paths"].values():
        row.pop("servers", None)
    schema = tmp_path / "openapi.json"
    schema.write_text(json.dumps(document))
    url = getattr(bank.addresses, f"{host}_url")
    command = [
        sys.executable, "-m", "schemathesis.cli", "--config-file", settings, "run", schema, "--url", url, "--tls-verify",
        bank_pki_folder / "root.pem", "--auth", f"{merchant.api_key}:", "--checks", CHECKS, "--max-examples", str(EXAMPLES),
        "--max-response-time", str(SLOWEST_S), "--generation-deterministic", "--no-color",
    ]  # fmt: skip
    done = subprocess.run(
        [str(word) for word in command], cwd=tmp_path, capture_output=True, text=True, timeout=RUN_S, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
