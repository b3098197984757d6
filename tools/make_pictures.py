"""Write the pictures of the guides, as Chromium shows the pages of a running sandbox.

    python tools/make_pictures.py

Needs Debian's package chromium. Ids and times differ in each run, so commit a picture only when the page has changed.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from uuid import uuid4

import httpx
from playwright.sync_api import sync_playwright

from tppkit._clock import utc_now
from tppkit.client import Identity
from tppkit.client.connections import client_options
from tppkit.message import Message
from tppkit.sandbox import SandboxSettings, run_sandbox
from tppkit.seals import sign_request
from tppkit.testpki import make_pki, write_pki

PICTURES = Path(__file__).parents[1] / "docs/pictures"
REFUSED_SEAL = PICTURES / "inspector-refused-seal.png"
PASSWORD = "test"  # noqa: S105  # of each test PKI
SIZE = {"width": 900, "height": 1000}
PATH = "/psd2/v1/payments/sepa-credit-transfers"
PAYMENT = b"""{
  "instructedAmount": {"currency": "EUR", "amount": "12.50"},
  "creditorAccount": {"iban": "LT121000011101001000"},
  "creditorName": "Bookshop"
}"""


def main() -> int:
    """Write every picture."""
    chromium = shutil.which("chromium")
    if chromium is None:
        print("chromium is not installed", file=sys.stderr)
        return 3
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        pki = Path(folder, "pki")
        write_pki(make_pki(at=utc_now()), pki)
        identity = Identity.from_pkcs12(
            qwac=pki / "qwac.p12", qseal=pki / "qseal.p12", password=PASSWORD, server_anchors=pki / "root.pem"
        )
        with run_sandbox(SandboxSettings(Path(folder, "bank"), pki=pki)) as bank:
            refuse(bank.addresses.psd2_url, identity)
            browser = driver.chromium.launch(executable_path=chromium, chromium_sandbox=os.geteuid() != 0)
            page = browser.new_page(viewport=SIZE)
            page.goto(f"{bank.addresses.control_url}/inspector/1")
            page.screenshot(path=REFUSED_SEAL)
            browser.close()
    print(REFUSED_SEAL)
    return 0


def refuse(url: str, identity: Identity) -> None:
    """Send a payment whose seal is over a path without the prefix of the bank's address."""
    headers = (("X-Request-ID", str(uuid4())), ("Content-Type", "application/json"))
    sealed = sign_request(Message("POST", PATH.removeprefix("/psd2"), headers, PAYMENT), seal=identity.seal)
    with httpx.Client(**client_options(identity, timeout_s=10)) as http:
        http.post(url + PATH, headers=sealed.headers, content=PAYMENT)


if __name__ == "__main__":
    sys.exit(main())
