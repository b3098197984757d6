"""examples/tpp-backend on a real PostgreSQL, against a sandbox over TLS: from the login to an archive that audits clean."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import NamedTuple
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
import psycopg
import pytest
from example_folders import Example
from serving import free_port, listens, program, wait_until

from servers import postgresql
from tppkit.callbacks import sign_callback
from tppkit.client import Identity, Psd2Client
from tppkit.protocol.psd2 import AccountReference, InstructedAmount, PaymentInitiation
from tppkit.seals import load_private_key

pytestmark = pytest.mark.slow

ORDER = {"creditor_name": "Bookshop", "iban": "LT121000011101001000", "amount": "12.50"}


class Backend(NamedTuple):
    """The example with all its servers.

    Attributes:
        example: its folder.
        url: of the backend.
        database: a libpq address.
    """

    example: Example
    url: str
    database: str

    def count(self, rows: str) -> int:
        with psycopg.connect(self.database) as connection:
            return int(connection.execute(f"SELECT count(*) FROM {rows}").fetchone()[0])

    def page(self) -> httpx.Client:
        return self.example.browser(self.url)

    def log_in(self, page: httpx.Client, **customer: str) -> None:
        code, session = page.post("/login").json()["text"], page.cookies["__Host-session"]
        self.example.control("/legacy/login", {"code": code, **customer})
        wait_until(lambda: page.post("/login/finish").json()["logged_in"], "the login")
        assert page.cookies["__Host-session"] != session  # an id that an attacker may have set is worth nothing


@pytest.fixture(scope="module")
def backend(tmp_path_factory) -> Iterator[Backend]:
    example = Example("tpp-backend", tmp_path_factory.mktemp("examples"))
    example.prepare()
    port = free_port()
    with ExitStack() as stack:
        database = stack.enter_context(postgresql(fsync=False))
        at = stack.enter_context(example.sandbox())
        settings = example.settings() | {
            "PUBLIC_URL": f"https://localhost:{port}",
            "BANK_URL": at.psd2_url,
            "DATABASE_URL": database.replace("postgresql:", "postgresql+psycopg:"),
        }
        example.environment |= settings
        stack.enter_context(example.running("uvicorn", ports={"9443": str(port)}))
        wait_until(lambda: listens(port), "the backend")
        stack.enter_context(example.running("python -m backend"))
        yield Backend(example, settings["PUBLIC_URL"], database)


def test_the_commands_of_the_readme_log_in_read_accounts_and_pay(backend):
    program("curl", "curl")
    program("jq", "jq")
    ports = {"9443": str(urlsplit(backend.url).port), "8446": str(urlsplit(backend.example.control_url).port)}
    name, accounts, payment = backend.example.run_block("page()", ports).splitlines()
    assert name == '{"name":"Ona Kazlauskienė"}'
    assert '"currency":"EUR","amount":"5000000.00"' in accounts
    assert '"amount":"12.50"' in payment
    assert '"status":"ACSC"' in payment


def test_a_login_that_is_sent_twice_logs_in_once(backend):
    before = backend.count("sessions")
    backend.example.control("/faults", {"name": "duplicate", "sender": "legacy-test"})
    with backend.page() as page:
        backend.log_in(page)
        backend.example.control("/clock/advance", {"seconds": 0})  # waits until everything due was sent
        assert page.get("/me").status_code == 200
        assert page.post("/login/finish").json() == {"logged_in": False}
    posts = re.findall(r'"POST /callbacks/login/(\w+) \S+ 200', backend.example.log.read_text())
    assert posts[-1] == posts[-2]
    assert (backend.count("sessions"), backend.count("logins")) == (before + 1, 0)


def test_a_login_that_nobody_fetched_is_deleted_and_a_new_login_ends_the_session(backend):
    with backend.page() as page:
        backend.log_in(page)
        old = "INSERT INTO logins SELECT 'old', id, now() - interval '6 minutes' FROM customers LIMIT 1"
        with psycopg.connect(backend.database) as connection:
            connection.execute(old)
        session = page.cookies["__Host-session"]
        page.post("/login").raise_for_status()
        assert page.post("/login/finish").json() == {"logged_in": False}
        page.cookies.clear()
        assert page.get("/me", headers={"Cookie": f"__Host-session={session}"}).status_code == 401
    assert backend.count("logins") == 0


def test_a_refused_payment_is_stored_as_refused(backend):
    target, certs = uuid4(), backend.example.folder / "certs"
    identity = Identity.from_pkcs12(
        qwac=certs / "qwac.p12", qseal=certs / "qseal.p12", password="test", server_anchors=certs / "root.pem"
    )
    payment = PaymentInitiation(
        instructed_amount=InstructedAmount(currency="EUR", amount="1.00"),
        creditor_account=AccountReference(iban=ORDER["iban"]),
        creditor_name="Other",
    )
    with Psd2Client(backend.example.environment["BANK_URL"], identity=identity) as client, backend.page() as page:
        client.initiate_payment(payment, request_id=target)  # so the bank refuses the id for another payment
        backend.log_in(page)
        refused = page.put(f"/payments/{target}", json=ORDER)
        assert (refused.status_code, refused.json()["code"]) == (502, "REQUEST_ID_REUSE")
        assert page.get(f"/payments/{target}").json()["status"] == "refused"
        busy = f"/payments/{uuid4()}"
        fault = {"name": "status-429", "interface": "psd2", "endpoint": "initiate_payment", "count": 10}
        backend.example.control("/faults", fault)
        assert page.put(busy, json=ORDER).status_code == 502
        httpx.delete(f"{backend.example.control_url}/faults", trust_env=False).raise_for_status()
        assert page.put(busy, json=ORDER).json()["status"] == "RCVD"


def test_the_same_callback_again_is_kept_once(backend):
    key = load_private_key((backend.example.folder / "sandbox" / "legacy" / "test.key").read_bytes())
    path, body = "/callbacks/login/" + "a" * 26, b'{"id":7,"name":"Eve"}'  # of a code that was never shown
    headers = sign_callback(key, request_id="again", method="POST", url=backend.url + path, body=body)
    before = backend.count("tppkit_inbox_entries")
    with backend.page() as service:
        assert [service.post(path, content=body, headers=headers).status_code for _ in range(3)] == [200] * 3
        assert service.post(path, content=body + b" ", headers=headers).status_code == 400
    assert backend.count("tppkit_inbox_entries") == before + 1
    assert backend.count("customers WHERE name = 'Eve'") == 0


def test_a_repeated_payment_is_made_once_and_belongs_to_its_customer(backend):
    customers = httpx.get(f"{backend.example.control_url}/customers", trust_env=False).json()
    target, other = f"/payments/{uuid4()}", {**ORDER, "amount": "12.51"}
    with backend.page() as ona, backend.page() as jonas:
        backend.log_in(ona, customer=customers[0]["id"])
        backend.log_in(jonas, customer=customers[1]["id"])
        first, again = (ona.put(target, json=ORDER) for _ in range(2))
        assert first.status_code == 200, first.text
        assert first.json() == again.json()
        assert ona.put(target, json=other).status_code == 409
        assert jonas.put(target, json=ORDER).status_code == 409
        assert jonas.get(target).status_code == 404
        assert ona.get(target).json()["status"] == "RCVD"
        assert jonas.get("/accounts").status_code == 409  # a consent of his own is needed


def test_a_payment_whose_answer_was_lost_is_made_once(backend):
    def made() -> int:
        with closing(sqlite3.connect(backend.example.folder / "sandbox" / "sandbox.sqlite")) as bank:
            return int(bank.execute("SELECT count(*) FROM payments").fetchone()[0])

    before, target = made(), f"/payments/{uuid4()}"
    fault = {"name": "reset-after", "interface": "psd2", "endpoint": "initiate_payment", "count": 10}
    with backend.page() as page:
        backend.log_in(page)
        backend.example.control("/faults", fault)
        lost = page.put(target, json=ORDER)
        assert (lost.status_code, "repeat" in lost.json()["detail"]) == (503, True)
        assert page.get(target).json()["status"] == "new"
        httpx.delete(f"{backend.example.control_url}/faults", trust_env=False).raise_for_status()
        assert page.put(target, json=ORDER).json()["status"] == "RCVD"
    assert made() == before + 1


def test_other_pages_strangers_and_wrong_amounts_change_nothing(backend):
    with backend.page() as page:
        assert page.get("/accounts").status_code == 401
        backend.log_in(page)
        before = backend.count("payments")
        target = f"/payments/{uuid4()}"
        for origin in ("https://evil.example", "null", ""):
            assert page.put(target, json=ORDER, headers={"Origin": origin}).status_code == 403
        for amount in (12.5, "12.505", "-1.00", "1e3", "0.00"):
            assert page.put(target, json={**ORDER, "amount": amount}).status_code == 422
        wrong = page.put(target, json={**ORDER, "iban": "LT991000011101001000"})
        assert (wrong.status_code, "Traceback" in wrong.text) == (422, False)
        assert backend.count("payments") == before
        cookie = page.post("/login").headers["Set-Cookie"]
        assert {"HttpOnly", "Secure", "SameSite=lax"} <= set(cookie.split("; "))
        assert page.post("/logout").status_code == 204
        assert page.get("/me").status_code == 401


def test_what_was_sent_and_received_is_in_an_archive_that_audits_clean(backend):
    with backend.page() as page:
        backend.log_in(page)
        assert page.put(f"/payments/{uuid4()}", json=ORDER).status_code == 200
    wait_until(lambda: backend.count("tppkit_evidence_outbox") == 0, "the archive")
    shown = backend.example.run_block("mkdir trust", {})
    passed = int(re.search(r"passed (\d+)  failed 0  indeterminate 0", shown)[1])
    assert passed >= backend.count("payments") + backend.count("consents") + backend.count("tppkit_inbox_entries")
