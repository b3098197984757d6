"""Every figure that the project promises: `make bench`. Prints a line each and writes benchmarks/results.json."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

from callbacks import receiving
from certificates import judging, reading
from diagnose import diagnosing
from files import entering
from harness import Line, Subject, against
from inbox import receiving_once
from peers import verifying
from qr import drawing
from rates import serving
from sandbox import paying
from testpki import making
from tppkit.seals import KeySigner, Message, Seal, SealPolicy, sign_request, verify_request
from tppkit.testpki import Pki, make_pki
from tppkit.trust import PathVerifier, make_anchors
from trust import believing
from web import admitting

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)
BODY = (
    b'{"instructedAmount":{"currency":"EUR","amount":"12.50"},"creditorAccount":{"iban":"LT121000011101001000"},'
    b'"creditorName":"Bookshop","remittanceInformationUnstructured":"Order 4711"}'
)
HEADERS = (
    ("Host", "psd2.bank.example"),
    ("Accept", "application/json"),
    ("X-Request-ID", "99391c7e-ad88-49ec-a2ad-99ddcb1f7721"),
    ("Content-Type", "application/json"),
    ("PSU-IP-Address", "192.0.2.7"),
)
REQUEST = Message("POST", "/psd2/v1/payments/sepa-credit-transfers", HEADERS, BODY)
RESULTS = Path(__file__).with_name("results.json")


def seals(key: str, name: str, *, sign_limit: float, verify_limit: float, rounds: int) -> Iterator[Line]:
    """Sealing and verifying against the bare signature operations of the same library."""
    pki = make_pki(at=AT, key=key)
    seal = Seal(pki.qseal.certificate, KeySigner(pki.qseal.key))
    sealed = sign_request(REQUEST, seal=seal)
    policy = SealPolicy(PathVerifier(make_anchors(pki.authorities)))
    qwac = pki.qwac.certificate
    verified = verify_request(sealed, qwac=qwac, at=AT, policy=policy)
    raw_sign, raw_verify = raw_operations(pki, verified.signing_string)
    yield against(
        f"seal sign {name}", lambda: sign_request(REQUEST, seal=seal), raw_sign,
        what=f"raw {name} sign", limit=sign_limit, rounds=rounds,
    )  # fmt: skip
    yield against(
        f"seal verify {name}, known certificate", lambda: verify_request(sealed, qwac=qwac, at=AT, policy=policy), raw_verify,
        what=f"raw {name} verify", limit=verify_limit, rounds=rounds * 2,
    )  # fmt: skip


def raw_operations(pki: Pki, data: bytes) -> tuple[Subject, Subject]:
    """Signing and verifying these bytes with nothing around it."""
    key = pki.qseal.key
    if isinstance(key, rsa.RSAPrivateKey):
        scheme, digest, public = padding.PKCS1v15(), hashes.SHA256(), key.public_key()
        signature = key.sign(data, scheme, digest)
        return lambda: key.sign(data, scheme, digest), lambda: public.verify(signature, data, scheme, digest)
    ecdsa, public_ec = ec.ECDSA(hashes.SHA256()), key.public_key()
    signature = key.sign(data, ecdsa)
    return lambda: key.sign(data, ecdsa), lambda: public_ec.verify(signature, data, ecdsa)


def start_up() -> Line:
    """The command line's help against importing the library it is made with."""
    command = [str(Path(sys.executable).with_name("tppkit")), "--help"]
    reference = [sys.executable, "-c", "import click"]
    return against(
        "tppkit --help",
        lambda: run(command),
        lambda: run(reference),
        what="python -c 'import click'",
        limit=2.0,
        rounds=20,
    )


def run(command: list[str]) -> None:
    """Run a process to its end."""
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603  # our own command


def lines() -> Iterator[Line]:
    """Every line, as it is measured."""
    yield from seals("rsa2048", "RSA-2048", sign_limit=1.1, verify_limit=1.5, rounds=1500)
    yield from seals("p256", "P-256", sign_limit=1.3, verify_limit=1.15, rounds=6000)
    yield from verifying(REQUEST)
    yield from receiving()
    yield from reading()
    yield from judging()
    yield from believing()
    yield from admitting()
    yield from paying()
    yield from serving()
    yield from making()
    yield from drawing()
    yield from diagnosing()
    yield from receiving_once()
    yield from entering()
    yield start_up()


def main() -> None:
    """Measure, print and write."""
    measured = []
    for line in lines():
        print(line.text(), flush=True)  # this is what it is for
        measured.append(line.as_object())
    RESULTS.write_text(json.dumps(measured, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
