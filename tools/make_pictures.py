"""Write the pictures of the pages in docs/pictures: pages as Chromium shows them, and terminals.

    python tools/make_pictures.py

Needs Debian's package chromium. `sources.toml` has the hash of what each picture is made from; only pictures whose source has
changed are made again, because ids and times differ in each run.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import httpx
from PIL import Image
from playwright.sync_api import Page, sync_playwright

import terminals
from digests import digest
from tppkit._clock import utc_now
from tppkit.cli.demo_shop import open_shop
from tppkit.client import AccessKind, GatewayClient, Identity, LegacyClient, Psd2Client
from tppkit.client.connections import client_options
from tppkit.message import Message
from tppkit.protocol.gateway import OrderRequest
from tppkit.protocol.legacy import PaymentOrder
from tppkit.protocol.psd2 import (
    ALL_ACCOUNTS,
    Access,
    AccountReference,
    ConsentRequest,
    InstructedAmount,
    PaymentInitiation,
)
from tppkit.sandbox import SandboxServer, SandboxSettings, run_sandbox
from tppkit.seals import sign_request
from tppkit.testpki import Pki, make_pki, write_pki

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src/tppkit"
PICTURES = ROOT / "docs/pictures"
HASHES = PICTURES / "sources.toml"
TOOLS = (Path(__file__), Path(terminals.__file__))  # the scenes, and what they share
PASSWORD = "test"  # noqa: S105  # of each test PKI
DESKTOP = {"viewport": {"width": 760, "height": 500}, "device_scale_factor": 2}
WIDE = {"viewport": {"width": 1200, "height": 880}, "device_scale_factor": 1}
PHONE = {"viewport": {"width": 390, "height": 700}, "device_scale_factor": 2, "has_touch": True, "is_mobile": True}
COLOURS = 256
CUT = ("audit-report.png", "inspector-refused-seal.png", "sandbox-index.png")  # at the end of the screen
PORTS = r"""() => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replace(/(?<=localhost:)\d+/g, "9443");
}"""
TEMPLATE = re.compile(r'{%-? *(?:extends|include|import|from) "([^"]+)"')
PATH = "/psd2/v1/payments/sepa-credit-transfers"
SHOP = "Bookshop"
PAYMENT = PaymentInitiation(
    instructed_amount=InstructedAmount(currency="EUR", amount="12.50"),
    creditor_account=AccountReference(iban="LT121000011101001000"),
    creditor_name=SHOP,
    remittance_information_unstructured="Order 4711",
)
CARD = {
    "Card number": "4111 1111 1111 1111",
    "Expiry date": "12/39",
    "Security code": "123",
    "Name on the card": "Ona Kazlauskienė",
}


class Bank(NamedTuple):
    """A sandbox and its clients, and a function that opens a page of a browser."""

    server: SandboxServer
    pki: Pki
    identity: Identity
    folder: Path
    open: Callable[..., Page]

    def control(self, path: str, body: Any = None) -> Any:
        """Call the control host."""
        return httpx.post(self.server.addresses.control_url + path, json=body or {}).raise_for_status()

    def psd2(self) -> Psd2Client:
        """A client of the bank."""
        return Psd2Client(self.server.addresses.psd2_url, identity=self.identity)


class Picture(NamedTuple):
    """A picture of a page.

    Attributes:
        scene: leads to the page.
        templates: the templates that make the page; those that they name count too.
        texts: further files that decide what the page says.
    """

    scene: Callable[[Bank], Page]
    templates: tuple[str, ...]
    texts: tuple[str, ...]

    def source(self) -> str:
        """The hash of what the picture is made from."""
        wanted, files = [*self.templates], {SOURCE / path for path in self.texts}
        while wanted:
            file = SOURCE / "sandbox/templates" / wanted.pop()
            if file not in files:
                files.add(file)
                wanted += TEMPLATE.findall(file.read_text("utf-8"))
        return digest(
            *(path.read_text("utf-8") for path in TOOLS), *(file.read_text("utf-8") for file in sorted(files))
        )


PAGES: dict[str, Picture] = {}


def picture(*templates: str, texts: tuple[str, ...] = ()) -> Callable[[Callable[[Bank], Page]], Callable[[Bank], Page]]:
    """Register a scene, whose name is that of the picture."""

    def register(scene: Callable[[Bank], Page]) -> Callable[[Bank], Page]:
        PAGES[f"{scene.__name__.replace('_', '-')}.png"] = Picture(scene, templates, texts)
        return scene

    return register


@picture("link.html", texts=("sandbox/psd2/page_texts.py",))
def approval_desktop(bank: Bank) -> Page:
    with bank.psd2() as client:
        return bank.open(client.initiate_payment(PAYMENT).links.sca_redirect.href, DESKTOP)


@picture("link.html", "phone.html", texts=("sandbox/psd2/page_texts.py",))
def approval_phone(bank: Bank) -> Page:
    with bank.psd2() as client:
        page = bank.open(client.initiate_payment(PAYMENT).links.sca_redirect.href + "/phone", PHONE)
    page.get_by_role("link", name="Ona Kaz").click()
    return page


@picture("link.html", "phone.html", texts=("sandbox/psd2/page_texts.py",))
def consent_phone(bank: Bank) -> Page:
    until = date.today() + timedelta(days=90)
    consent = ConsentRequest(access=Access(all_psd2=ALL_ACCOUNTS), valid_until=until, frequency_per_day=4)
    with bank.psd2() as client:
        page = bank.open(client.create_consent(consent).links.sca_redirect.href + "/phone", PHONE)
    page.get_by_role("link", name="Ona Kaz").click()
    return page


@picture("gateway_pay.html", texts=("sandbox/gateway/page_texts.py",))
def payment_page(bank: Bank) -> Page:
    return order_page(bank)


@picture("gateway_result.html", texts=("sandbox/gateway/page_texts.py",))
def result_page(bank: Bank) -> Page:
    page = order_page(bank)
    address = page.url
    page.route("https://shop.example/**", lambda route: route.fulfill(body="shop"))
    page.get_by_role("button", name="Pay").click()
    page.wait_for_url("https://shop.example/**")
    page.goto(address)
    return page


def order_page(bank: Bank) -> Page:
    """The hosted page of an order, with the fields of the card filled in."""
    at = bank.server.addresses
    order = OrderRequest(
        currency="EUR", amount=2500, merchant_name=SHOP, description="Two books", merchant_order_id="4711",
        return_url="https://shop.example/thanks",
    )  # fmt: skip
    with GatewayClient(at.gateway_url, api_key=at.api_key, server_anchors=[bank.pki.root.certificate]) as gateway:
        page = bank.open(gateway.create_order(order).order_url, DESKTOP)
    for label, value in CARD.items():
        page.get_by_label(label).fill(value)
    page.evaluate("document.activeElement.blur()")
    return page


@picture("login.html")
def login_page(bank: Bank) -> Page:
    with open_shop(bank.server, bank.pki, bank.folder, bank.control) as shop:
        code = shop.codes.make("the session of a browser", at=utc_now())
        page = bank.open(f"{bank.server.addresses.approval_url}/app?code={code.text}", PHONE)
        page.get_by_role("button", name="Ona Kaz").click()
        page.get_by_role("heading", name="Log in at").wait_for()
        page.locator("dd b").evaluate("(code) => { code.textContent = '4711'; }")  # it is random
        return page


@picture("index.html", texts=("sandbox/index.py", "sandbox/legacy/sections.py", "sandbox/gateway/sections.py"))
def sandbox_index(bank: Bank) -> Page:
    at = bank.server.addresses
    with bank.psd2() as client:
        paid, waiting = [client.initiate_payment(PAYMENT).payment_id for _ in range(2)]
        client.payment_status(waiting)
    bank.control(f"/payments/{paid}/approve")
    consent_phone(bank)
    order_page(bank)
    with LegacyClient(at.legacy_url, api_key=at.legacy_api_key, server_anchors=[bank.pki.root.certificate]) as legacy:
        token = legacy.request_access(AccessKind.PAYMENTS, "+37060000001")
        bank.control(f"/legacy/access/{token}/approve")
        legacy.pay(token, PaymentOrder(acc="+37060000002", amts={"EUR": Decimal("12.50")}, msg="Order 4712"))
    return bank.open(at.approval_url, WIDE)


@picture("inspected.html", texts=("sandbox/inspector.py", "sandbox/request_view.py"))
def inspector_refused_seal(bank: Bank) -> Page:
    """A payment whose seal is over a path without the prefix of the bank's address."""
    body = PAYMENT.model_dump_json(by_alias=True, exclude_none=True, indent=2).encode()
    headers = (("X-Request-ID", str(uuid4())), ("Content-Type", "application/json"))
    sealed = sign_request(Message("POST", PATH.removeprefix("/psd2"), headers, body), seal=bank.identity.seal)
    with httpx.Client(**client_options(bank.identity, timeout_s=10)) as http:
        http.post(bank.server.addresses.psd2_url + PATH, headers=sealed.headers, content=body)
    page = bank.open(
        f"{bank.server.addresses.control_url}/inspector", WIDE | {"viewport": {"width": 900, "height": 1000}}
    )
    page.locator("a[href^='/inspector/']").first.click()
    return page


@picture(texts=("evidence/report.py", "evidence/page.py"))
def audit_report(bank: Bank) -> Page:
    terminals.prepare(bank.folder)
    terminals.run("tppkit audit verify evidence --trust authorities.pem --at recorded --report audit.html", bank.folder)
    return bank.open((bank.folder / "audit.html").as_uri(), WIDE | {"viewport": {"width": 1000, "height": 1000}})


@contextmanager
def opened_bank(driver: Any) -> Iterator[Bank]:
    """A bank of its own for a picture, and a browser."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pki = make_pki(at=utc_now(), seed=1)
        write_pki(pki, folder / "pki")
        identity = Identity.from_pkcs12(
            qwac=folder / "pki/qwac.p12", qseal=folder / "pki/qseal.p12", password=PASSWORD, server_anchors=folder / "pki/root.pem",
        )  # fmt: skip
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), chromium_sandbox=os.geteuid() != 0)

        def open_page(address: str, form: Any) -> Page:
            page: Page = browser.new_context(**form).new_page()
            page.goto(address)
            return page

        with run_sandbox(SandboxSettings(folder / "bank", pki=folder / "pki", seed=1)) as server:
            yield Bank(server, pki, identity, folder, open_page)
        browser.close()


def draw(name: str, driver: Any) -> None:
    """Make one picture of a page, with few colours so that it is small."""
    with opened_bank(driver) as bank:
        page = PAGES[name].scene(bank)
        page.evaluate(PORTS)
        shot = page.screenshot(full_page=name not in CUT, animations="disabled")
    image = Image.open(io.BytesIO(shot)).convert("RGB")
    image = image.quantize(COLOURS, dither=Image.Dither.NONE)
    image.save(PICTURES / name, optimize=True)


def main() -> int:
    """Make what is missing or has another source, and remove what is left over."""
    if shutil.which("chromium") is None:
        print("chromium is not installed", file=sys.stderr)
        return 3
    kept = tomllib.loads(HASHES.read_text("utf-8")) if HASHES.exists() else {}
    shown = {name: terminals.shown(name) for name in terminals.TERMINALS}
    sources = {name: one.source() for name, one in PAGES.items()} | {name: digest(text) for name, text in shown.items()}
    for old in {path.name for path in PICTURES.glob("*.*")} - {*sources, HASHES.name}:
        (PICTURES / old).unlink()
    with sync_playwright() as driver:
        for name, source in sources.items():
            if kept.get(name) != source or not (PICTURES / name).exists():
                if name in shown:
                    (PICTURES / name).write_text(terminals.svg(name, shown[name]), "utf-8")
                else:
                    draw(name, driver)
                kept[name] = source
                rows = sorted((name, source) for name, source in kept.items() if name in sources)
                HASHES.write_text("".join(f'"{name}" = "{source}"\n' for name, source in rows), "utf-8")
                print(PICTURES / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
