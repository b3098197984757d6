"""The servers of docs/how-to/receive-webhooks.md run for real, get a webhook, and fetch its order from the sandbox."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from callback_servers import Server, request, run_server, running
from merchant import Merchant
from serving import wait_until

from tppkit.protocol.gateway.webhooks import StatusChanged
from tppkit.testpki import Pki, certificate_pem
from tppkit.web import make_webhook_path

pytestmark = pytest.mark.slow

TEXT = (Path(__file__).parents[2] / "docs/how-to/receive-webhooks.md").read_text("utf-8")
FASTAPI, FLASK, ASGI, WSGI, WATCH, TASKS = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
COMMON = FASTAPI.replace("from fastapi import FastAPI\n", "").partition("app = ")[0]
UVICORN = ("-m", "uvicorn", "shop:app", "--port", "{port}", "--no-proxy-headers", "--no-access-log")
GUNICORN = ("-m", "gunicorn", "shop:app", "-b", "127.0.0.1:{port}")
WORK = ("-m", "tppkit", "inbox", "work", "--database", "sqlite:///shop.sqlite", "--handler", "shop:work", "--forever")
PROGRAMS = {
    "fastapi": (FASTAPI, UVICORN),
    "flask": (COMMON + FLASK, GUNICORN),
    "asgi": (COMMON + ASGI, UVICORN),
    "wsgi": (COMMON + WSGI, GUNICORN),
}


def environment_of(merchant: Merchant, pki: Pki, folder: Path) -> dict[str, str]:
    (folder / "root.pem").write_bytes(certificate_pem(pki.root.certificate))
    return {
        "GATEWAY_URL": merchant.bank.addresses.gateway_url, "API_KEY": merchant.api_key, "WEBHOOK_PATH": make_webhook_path(),
        "SSL_CERT_FILE": str(folder / "root.pem"),
    }  # fmt: skip


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_an_example_server_delivers_the_goods_that_a_customer_paid_for(
    name, fresh_bank, make_merchant, bank_pki, tmp_path
):
    program, command = PROGRAMS[name]
    assert len([line for line in program.splitlines() if line]) <= 25
    (tmp_path / "shop.py").write_text(program)
    merchant, log = make_merchant(fresh_bank), tmp_path / "log"
    environment = environment_of(merchant, bank_pki, tmp_path)
    path = environment["WEBHOOK_PATH"]
    with running({"shop": Server(command, folder=tmp_path, path=tmp_path)}, environment=environment, log=log) as ports:
        port = ports["shop"]
        assert [request(port, "POST", target, body=b"{}").status for target in (path + "x", path)] == [404, 400]
        order = merchant.order(merchant_order_id="4711")
        merchant.pay(order, outcome="approved")
        body = StatusChanged(event="status_changed", order_id=order["id"], project_id=merchant.project_id).to_wire()
        for _ in range(3):
            assert request(port, "POST", path, body=body).status == 200
        with run_server(Server(WORK, folder=tmp_path, path=tmp_path), 0, environment, log):
            wait_until(lambda: "deliver 4711\n" in log.read_text(), "the delivery")
            refunded = merchant.control(f"/gateway/orders/{order['id']}/refund", {"amount": order["amount"]})
            refund = StatusChanged(
                event="status_changed", order_id=refunded["id"], project_id=merchant.project_id
            ).to_wire()
            assert request(port, "POST", path, body=refund).status == 200
            wait_until(lambda: f"do not deliver {order['id']} " in log.read_text(), "the refund")
            assert request(port, "POST", path, body=body).status == 200
            later = merchant.order(merchant_order_id="4712")
            merchant.pay(later, outcome="approved")
            body = StatusChanged(event="status_changed", order_id=later["id"], project_id=merchant.project_id).to_wire()
            assert request(port, "POST", path, body=body).status == 200
            wait_until(lambda: "deliver 4712\n" in log.read_text(), "the second delivery")
    text = log.read_text()
    assert merchant.api_key not in text
    assert path not in text
    assert text.count("deliver 4711\n") == 1  # not again after the refund


def test_a_webhook_of_the_sandbox_reaches_a_program_over_https(
    fresh_bank, make_merchant, bank_pki, bank_pki_folder, tmp_path
):
    (tmp_path / "shop.py").write_text(FASTAPI)
    files = ("--ssl-certfile", f"{bank_pki_folder}/server-chain.pem", "--ssl-keyfile", f"{bank_pki_folder}/server.key")
    server, work = (Server(command, folder=tmp_path, path=tmp_path) for command in ((*UVICORN, *files), WORK))
    merchant, log = make_merchant(fresh_bank), tmp_path / "log"
    environment = environment_of(merchant, bank_pki, tmp_path)
    with running({"shop": server}, environment=environment, log=log) as ports:
        url = f"https://localhost:{ports['shop']}{environment['WEBHOOK_PATH']}"
        merchant.pay(merchant.order(merchant_order_id="4711", webhook_url=url), outcome="approved")
        with run_server(work, 0, environment, log):
            wait_until(lambda: "deliver 4711\n" in log.read_text(), "the delivery")


def test_the_other_blocks_run(merchant, bank_pki, tmp_path, monkeypatch):
    module: Any = ModuleType("page")
    for name, value in environment_of(merchant, bank_pki, tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    for program in (FASTAPI, WATCH, TASKS):
        exec(compile(program, "page", "exec", dont_inherit=True), vars(module))
    assert module.order.merchant_order_id == "4711"
    asyncio.run(module.work_all())
    module.client.close()
