"""examples/bank-gate behind a real nginx: a provider pays once, and what must be refused is refused with the right code."""

from __future__ import annotations

import os
import sqlite3
import ssl
from collections.abc import Iterator
from contextlib import closing
from uuid import uuid4

import pytest
from example_folders import Example
from serving import free_port, listens, program, send, wait_until

from tppkit._clock import utc_now
from tppkit.certificates import load_certificates
from tppkit.client import Identity, Psd2Client
from tppkit.errors import RequestRefused
from tppkit.protocol.psd2 import AccountReference, InstructedAmount, PaymentInitiation
from tppkit.seals import KeySigner, Message, Seal, load_private_key, sign_request
from tppkit.testpki import make_pki

pytestmark = pytest.mark.slow

TARGET = "/psd2/v1/payments/sepa-credit-transfers"
PAYMENT = PaymentInitiation(
    instructed_amount=InstructedAmount(currency="EUR", amount="12.50"),
    creditor_account=AccountReference(iban="LT121000011101001000"),
    creditor_name="Bookshop",
)


@pytest.fixture(scope="module")
def bank(tmp_path_factory) -> Iterator[tuple[Example, str]]:
    """The example with its servers, and its address."""
    program("nginx", "nginx-light")
    example = Example("bank-gate", tmp_path_factory.mktemp("examples"))
    example.prepare()
    https, socket = free_port(), example.folder / "run" / "bank.sock"
    config = example.folder / "nginx.conf"
    user = "user root;\n" if os.geteuid() == 0 else ""  # pytest's folders are closed to others
    config.write_text(user + config.read_text().replace("8443", str(https)))
    example.environment |= dict(word.split("=") for word in example.command("export")[1:])
    with example.running("uvicorn"), example.running("nginx"):
        wait_until(lambda: socket.exists() and listens(https), "the bank")
        assert socket.parent.stat().st_mode & 0o077 == 0
        yield example, f"https://localhost:{https}"


def identity(example: Example, qwac: str = "qwac", qseal: str = "qseal") -> Identity:
    certs = example.folder / "certs"
    return Identity.from_pkcs12(
        qwac=certs / f"{qwac}.p12", qseal=certs / f"{qseal}.p12", password="test", server_anchors=certs / "root.pem"
    )


def refusal(url: str, who: Identity) -> tuple[int, str | None]:
    with Psd2Client(url, identity=who) as client, pytest.raises(RequestRefused) as refused:
        client.initiate_payment(PAYMENT)
    return refused.value.status, refused.value.peer_code


def payments(example: Example) -> int:
    with closing(sqlite3.connect(example.folder / "bank.sqlite")) as database:
        return int(database.execute("SELECT count(*) FROM payments").fetchone()[0])


def test_the_commands_of_the_readme_pay_and_are_refused(bank):
    example, url = bank
    before = payments(example)
    assert example.run(f"python pay.py {url}").endswith("RCVD\n")
    assert example.run(f"python pay.py {url} reader", code=1) == "refused 403 ROLE_INVALID\n"
    assert payments(example) == before + 1


def test_a_repeated_payment_is_made_once_and_seen_by_its_provider_only(bank):
    example, url = bank
    before, request_id = payments(example), uuid4()
    with Psd2Client(url, identity=identity(example)) as client:
        first, again = (client.initiate_payment(PAYMENT, request_id=request_id).payment_id for _ in range(2))
        assert first == again
        assert client.payment_status(first).transaction_status == "RCVD"
    changed = PAYMENT.model_copy(update={"creditor_name": "Other"})
    with Psd2Client(url, identity=identity(example)) as client:  # a client refuses to do this with an id of its own
        with pytest.raises(RequestRefused) as refused:
            client.initiate_payment(changed, request_id=request_id)
        assert (refused.value.status, refused.value.peer_code) == (409, "REQUEST_ID_REUSE")
    with (
        Psd2Client(url, identity=identity(example, "other-qwac", "other-qseal")) as other,
        pytest.raises(RequestRefused) as refused,
    ):
        other.payment_status(first)
    assert (refused.value.status, refused.value.peer_code) == (403, "RESOURCE_UNKNOWN")
    assert payments(example) == before + 1


def test_strangers_and_changed_requests_are_refused_and_have_no_effect(bank):
    example, url = bank
    before, certs = payments(example), example.folder / "certs"
    far = make_pki(at=utc_now(), seed=3)  # the same names, issued by another authority
    stranger = Identity(
        far.qwac.certificate, far.qwac.key, chain=far.qwac.chain, seal=Seal(far.qseal.certificate, KeySigner(far.qseal.key)),
        server_anchors=certs / "root.pem",
    )  # fmt: skip
    assert refusal(url, stranger) == (401, "CERTIFICATE_INVALID")
    assert refusal(url, identity(example, "reader")) == (403, "ROLE_INVALID")

    seal = Seal(
        load_certificates(certs / "qseal.pem")[0], KeySigner(load_private_key((certs / "qseal.key").read_bytes()))
    )
    headers = (("X-Request-ID", str(uuid4())), ("Content-Type", "application/json"))
    sealed = sign_request(Message("POST", TARGET, headers, PAYMENT.to_wire()), seal=seal)
    changed = sealed._replace(body=sealed.body.replace(b"12.50", b"99.50"))
    forged = ("X-SSL-Client-Cert", (certs / "qwac.pem").read_text().replace("\n", "%0A"))
    no_certificate = ssl.create_default_context(cafile=certs / "root.pem")
    for message, context, expected in (
        (changed, identity(example).tls_context, (401, "SIGNATURE_INVALID")),
        (sealed, identity(example, "other-qwac", "other-qseal").tls_context, (401, "SIGNATURE_INVALID")),
        (sealed, no_certificate, (401, "CERTIFICATE_MISSING")),
        (sealed.with_headers(forged), no_certificate, (401, "CERTIFICATE_MISSING")),
    ):
        answer = send(url, message, verify=context)
        assert (answer.status_code, answer.json()["tppMessages"][0]["code"]) == expected
        assert "Traceback" not in answer.text
    assert payments(example) == before


def test_every_payment_has_its_record_and_the_archive_is_in_order(bank):
    example, url = bank
    example.run(f"python pay.py {url}")
    pending = "SELECT count(*) FROM tppkit_evidence_outbox"
    with closing(sqlite3.connect(example.folder / "bank.sqlite")) as database:
        wait_until(lambda: database.execute(pending).fetchone() == (0,), "the archive")
    verify = " ".join(example.command("tppkit audit verify"))
    assert f"passed {payments(example)}  failed 0" in example.run(verify)
