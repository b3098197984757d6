"""The examples, each as a real server: a sealed request is handled, a changed one is not, a lie about a certificate is not trusted."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote
from uuid import UUID, uuid4

import pytest
from asgi import sealed
from serving import free_port, run_program, send

from tppkit.certificates import EidasCertificate
from tppkit.protocol.psd2.models import PaymentInitiated
from tppkit.seals import Message, Seal, sign_request
from tppkit.testpki import Pki, certificate_pem

EXAMPLES = Path(__file__).parents[2] / "examples"
UVICORN = ("-m", "uvicorn", "--no-proxy-headers", "--port", "{port}")
COMMANDS = {
    "fastapi_bank": (*UVICORN, "fastapi_bank:app"),
    "starlette_bank": (*UVICORN, "starlette_bank:app"),
    "flask_bank": ("-m", "waitress", "--listen=127.0.0.1:{port}", "--max-request-body-size=65536", "flask_bank:app"),
    "django_bank": (
        "-m",
        "gunicorn",
        "--no-control-socket",
        "--forwarder-headers",
        "",
        "--bind",
        "127.0.0.1:{port}",
        "django_bank:application",
    ),
}
TARGET = "/psd2/v1/payments/sepa-credit-transfers"
BODY = (
    b'{"instructedAmount":{"currency":"EUR","amount":"12.50"},'
    b'"creditorAccount":{"iban":"LT601010012345678901"}, "creditorName":"Bookshop"}'
)


@contextmanager
def serve(name: str, anchors: Path, scratch: Path) -> Iterator[str]:
    port = free_port()
    module = os.pathsep.join([str(EXAMPLES), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
    environment = {"BANK_ANCHORS": str(anchors), "PYTHONPATH": module}
    command = [sys.executable, *(part.format(port=port) for part in COMMANDS[name])]
    with run_program(command, port=port, folder=scratch, environment=environment):
        yield f"http://127.0.0.1:{port}"


def forwarded(message: Message, certificate: EidasCertificate) -> Message:
    """The message as nginx sends it on."""
    return message.with_headers(("X-SSL-Client-Cert", quote(certificate_pem(certificate).decode(), safe="")))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_example_handles_what_was_sealed_and_nothing_else(
    name: str, bank_pki_folder: Path, bank_pki: Pki, live_seal: Seal, tmp_path: Path
) -> None:
    qwac = bank_pki.qwac.certificate

    def fresh(body: bytes = BODY) -> Message:
        return forwarded(sealed(live_seal, target=TARGET, body=body, request_id=None), qwac)

    with serve(name, bank_pki_folder, tmp_path) as url:
        first = send(url, fresh())
        tampered = send(url, fresh()._replace(body=BODY.replace(b"12.50", b"99.99")))
        elsewhere = send(url, fresh()._replace(target=TARGET.replace("sepa", "instant-sepa")))
        spoofed = send(url, fresh(), local="127.0.0.2")
        huge = send(url, fresh(b"x" * 65_537))
        unknown = send(url, forwarded(sealed(live_seal, target=TARGET + "x", body=BODY, request_id=None), qwac))
        text = sign_request(
            Message("POST", TARGET, (("X-Request-ID", str(uuid4())), ("Content-Type", "text/plain")), BODY),
            seal=live_seal,
        )
        as_text = send(url, forwarded(text, qwac))
        poll = Message("GET", f"{TARGET}/1/status", (("X-Request-ID", str(uuid4())),))
        unhandled = send(url, forwarded(poll, qwac))
        unreadable = send(url, fresh(b"not json"))
        last = fresh()
        second = send(url, last)
        again = send(url, last)
    assert first.status_code == 201, first.text
    told = PaymentInitiated.from_wire(first.content)
    assert (told.payment_id, told.transaction_status, told.links.self_.href) == ("1", "RCVD", f"{TARGET}/1")
    assert (unreadable.status_code, unreadable.json()["tppMessages"][0]["code"]) == (400, "FORMAT_ERROR")
    assert first.headers["Content-Type"] == "application/json"
    assert UUID(first.headers["X-Request-ID"])
    for answer, status, code in (
        (unknown, 404, "PRODUCT_UNKNOWN"),
        (as_text, 400, "FORMAT_ERROR"),
        (unhandled, 404, "RESOURCE_UNKNOWN"),
    ):
        assert (answer.status_code, answer.json()["tppMessages"][0]["code"]) == (status, code), answer.text
    assert unhandled.headers["X-Request-ID"] == poll.values("X-Request-ID")[0]
    assert huge.status_code == 413
    assert (tampered.status_code, elsewhere.status_code, spoofed.status_code) == (401, 401, 401)
    codes = [json.loads(answer.content)["tppMessages"][0]["code"] for answer in (tampered, elsewhere, spoofed)]
    assert codes == ["SIGNATURE_INVALID", "SIGNATURE_INVALID", "CERTIFICATE_MISSING"]
    assert second.json()["paymentId"] == "2"  # no handler ran in between
    assert again.json() == second.json()  # the provider got no answer, and its payment is made once
    assert sorted(COMMANDS) == sorted(path.stem for path in EXAMPLES.glob("*_bank.py"))
