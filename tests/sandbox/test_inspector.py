"""The inspector: what it shows, what it hides, and who may press its buttons."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import html
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from tppkit._clock import utc_now
from tppkit.client import Psd2Client
from tppkit.errors import RequestRefused
from tppkit.protocol.gateway import OrderRequest
from tppkit.protocol.psd2 import AccountReference, InstructedAmount, PaymentInitiation
from tppkit.sandbox import Sandbox, SandboxServer
from tppkit.sandbox import inspector as inspector_module
from tppkit.sandbox.conformance import RULES
from tppkit.sandbox.inspector import MAX_READERS, Filter, Inspector
from tppkit.sandbox.latest_requests import LatestRequests
from tppkit.sandbox.request_view import SealDiagnoses, masked_parts, shown_body, shown_headers
from tppkit.seals import KeySigner, Message, Seal, sign_request
from tppkit.seals.profiles import PSD2_V1
from tppkit.testing import assert_no_pan

CARD, CVC = "4111111111111111", "0739"
PAYMENT = PaymentInitiation(
    instructed_amount=InstructedAmount(currency="EUR", amount="12.50"),
    creditor_account=AccountReference(iban="LT121000011101001000"),
    creditor_name="Bookshop",
)
PAYMENTS = "/psd2/v1/payments/sepa-credit-transfers"
MARKUP = "<script>alert(1)</script>"


@pytest.fixture
def inside(tppkit_pki) -> Iterator[Sandbox]:
    with Sandbox(pki=tppkit_pki) as inside:
        yield inside


@pytest.fixture
def browser(inside: Sandbox) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=inside.addresses.control_url, transport=inside.transport()) as http:
        yield http


@pytest.fixture
def client(inside: Sandbox) -> Psd2Client:
    return inside.client(roles=["PSP_PI"])


def seen(answer: httpx.Response) -> str:
    """The text of a page, without its style and script."""
    assert answer.headers["content-security-policy"].endswith("frame-ancestors 'none'")
    assert answer.headers["cache-control"] == "no-store"
    assert MARKUP not in answer.text
    return html.unescape(re.sub("<(style|script).*?</\\1>|<[^>]*>", "", answer.text, flags=re.DOTALL))


def press(browser: httpx.Client, action: str, **fields: str) -> httpx.Response:
    token = re.search('name="token" value="([^"]+)"', browser.get("/inspector").text)
    assert token is not None
    return browser.post("/inspector/actions", data={"token": token[1], "action": action, **fields})


def test_requests_of_all_hosts_are_listed_and_filtered(inside, browser, client):
    assert "No requests yet." in seen(browser.get("/inspector"))
    client.initiate_payment(PAYMENT)
    with pytest.raises(RequestRefused):
        client.payment_status("absent")
    inside.gateway.client().create_order(OrderRequest(currency="EUR", amount=1250))
    shown = {
        filters: re.findall('/inspector/([0-9]+)"', browser.get("/inspector", params=filters).text)
        for filters in ("", "interface=psd2", "status=4xx", "interface=gateway&status=2xx", "interface=vault")
    }
    assert shown == {
        "": ["3", "2", "1"],
        "interface=psd2": ["2", "1"],
        "status=4xx": ["2"],
        "interface=gateway&status=2xx": ["3"],
        "interface=vault": [],
    }
    row = seen(browser.get("/inspector", params="status=4xx"))
    inside.control("POST", "/reset")
    assert "No requests yet." in seen(browser.get("/inspector"))
    assert re.search(
        r"psd2\s+GET /psd2/v1/\S+/absent/status\s+403 RESOURCE_UNKNOWN\s+PSDLT-BL-LB000000\s+[0-9.]+ ms", row
    )


def test_a_request_shows_its_parts_and_why_it_was_refused(browser, client):
    link = client.initiate_payment(PAYMENT).links.sca_redirect.href
    page = seen(browser.get("/inspector/1"))
    assert '"creditorName":"Bookshop"' in page.replace(" ", "")
    assert link.rpartition("/")[2] not in page
    assert "/approve/***" in page
    with pytest.raises(RequestRefused):
        client.payment_status("absent")
    page = seen(browser.get("/inspector/2"))
    assert "payment.unknown" in page
    assert "What to do:" in page


def sealed(inside: Sandbox, **changed: Any) -> Message:
    pki = inside.pki
    headers = (("content-type", "application/json"), ("x-request-id", "5b0e6a1c-2f1d-4c8e-9f55-4d1f0ad7c001"))
    message = Message("POST", PAYMENTS, headers, PAYMENT.to_wire())
    signed = sign_request(message, seal=Seal(pki.qseal.certificate, KeySigner(pki.qseal.key)))
    return signed._replace(**changed)


@pytest.mark.earns("digest-reserialised")
def test_a_refused_seal_is_diagnosed(inside, browser):
    with httpx.Client(base_url=inside.addresses.psd2_url, transport=inside.transport(inside.identity())) as http:
        first = sealed(inside)
        headers = [(name, "6" + value[1:] if name == "x-request-id" else value) for name, value in first.headers]
        http.request(first.method, first.target, headers=headers, content=first.body)
        http.request(first.method, first.target, headers=first.headers, content=first.body + b" ")
    page = seen(browser.get("/inspector/1"))
    assert "What the bank computed" in page
    assert "signature.invalid" in page
    assert '"creditorName"' in page  # read although the head was refused
    page = seen(browser.get("/inspector/2"))
    assert "digest.mismatch" in page
    assert "Proof:" in page


def test_a_difference_inside_a_secret_does_not_show_its_rest():
    text = "(request-target): get /a?token=abcdef&b=4111 1111 1111\u00a01111&c=d".encode()
    for at in range(len(text)):
        parts = masked_parts(text, at)
        assert parts is not None
        assert "".join(parts) == "(request-target):·get·/a?token=***&b=***&c=d", parts
    assert masked_parts(text, 19) == ("(request-target):·g", "e", "t·/a?token=***&b=***&c=d")


def test_a_refused_seal_shows_both_digests_and_the_caller(inside, browser):
    with httpx.Client(base_url=inside.addresses.psd2_url, transport=inside.transport(inside.identity())) as http:
        first = sealed(inside)
        body = first.body.replace(b"12.50", b"12.51")
        http.request(first.method, first.target, headers=first.headers, content=body)
    page = seen(browser.get("/inspector/1"))
    assert "digest.mismatch" in page
    for one in (first.body, body):
        assert "SHA-256=" + base64.b64encode(hashlib.sha256(one).digest()).decode() in page
    assert "What the bank computed" not in page
    assert "No known mistake explains it" not in page
    assert "tppkit seal diagnose" not in page
    assert re.search(r"Caller\s*PSDLT-BL-LB000000", page)
    assert "PSDLT-BL-LB000000" in seen(browser.get("/inspector"))


@pytest.mark.earns("unknown-query")
def test_a_request_shows_the_rules_that_it_breaks(inside, browser):
    with httpx.Client(transport=inside.transport(), auth=(inside.gateway.api_key, "")) as http:
        http.get(f"{inside.addresses.gateway_url}/v1/orders/absent/?fields=id")
    page = seen(browser.get("/inspector/1"))
    assert RULES["unknown-query"].advice in page
    assert RULES["unknown-field"].advice not in page


@pytest.mark.earns("unknown-query")
def test_card_data_and_keys_are_not_shown(inside, browser):
    key = inside.gateway.api_key
    url = inside.addresses.vault_url + "/v1/cards/"
    data = f'"pan": {CARD}, "cvc": "{CVC}"'
    bodies = (
        f'{{{data}, "expiry": "122030"}}',
        f'{{"p\\u0061n": "{CARD}", "\\u0063vc": "{CVC}"}}',
        f'{{"deep": [{{{data}, "text": "{" ".join(CARD)}"}}], "{CARD}": 1}}',
        f"pan={CARD}&cvc={CVC}",
        f'{{"cvc": "{CVC}"',
        f'{{"cvc": "{CVC}", "pad": "{"x" * 70_000}"}}',
    )
    with httpx.Client(transport=inside.transport(), auth=(key, "")) as http:
        for number, body in enumerate(bodies, 1):
            http.post(url, content=body, headers={"Content-Type": "application/json", "X-Api-Key": key, "Cookie": key})
            page = browser.get(f"/inspector/{number}")
            assert_no_pan(seen(page), cards=[CARD, CVC])
            assert key not in page.text
        http.get(inside.addresses.gateway_url + f"/v1/orders/{CARD}/?{MARKUP}")
    assert_no_pan(*(browser.get(path).text for path in ("/inspector", "/inspector/7")), cards=[CARD])


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("authorization", "Basic a2V5", "***"),
        ("X-API-Key", "a", "***"),
        ("Set-Cookie", "a=b", "***"),
        ("x-session-token", "a", "***"),
        ("tpp-redirect-uri", "https://localhost/approve/SECRET", "https://localhost/approve/***"),
        ("psu-id", "4111\u00a01111\u20131111\u202f1111".encode().decode("latin-1"), "***"),
        ("signature", 'keyId="SN=1,CA=CN=x"', 'keyId="SN=1,CA=CN=x"'),
        ("a\x1b[31m", "\xe2\x80\xae\xff\r\nb", "\\u202e\\xff\n" + "b"),
    ],
)
def test_headers_are_shown_without_secrets(name, value, shown):
    ((_, found),) = shown_headers([(name, value)])
    assert found == shown


@pytest.mark.parametrize(
    "body", [b"\xff\x00\x1b[31m<b>", b"[" * 50_000, b'{"a": 1, "a": 2}', b'{"a": ' + b"9" * 5000 + b"}", b'"\\ud800"']
)
def test_hostile_bodies_are_shown_as_printable_text(body):
    text = shown_body(body, is_whole=True, is_plain=True)
    assert text is not None
    assert all(char.isprintable() or char == "\n" for char in text)
    assert shown_body(body, is_whole=True, is_plain=False) is None


def test_card_data_with_other_names_is_not_shown():
    names = (
        "security_code",
        "cv2",
        "cvv2",
        "cvc2",
        "CSC",
        "exp",
        "expMonth",
        "expirationDate",
        "cardExpiry",
        "track1",
        "track2",
    )
    for name in names:
        shown = shown_body(
            f'{{"x": {{"{name}": "739", "text": "{CARD}=73912"}}}}'.encode(), is_whole=True, is_plain=False
        )
        assert shown is not None
        assert "739" not in shown, name


def test_unknown_numbers_and_filters_have_typed_answers(inside, browser):
    with httpx.Client(base_url=inside.addresses.psd2_url, transport=inside.transport(inside.identity())) as http:
        http.request("GET", f"/{MARKUP}%7f", headers={"a": MARKUP, "b": "\x01"}, content=MARKUP)
    for path, status in (
        ("/inspector/0", 404),
        ("/inspector/2", 404),
        ("/inspector/-1", 404),
        ("/inspector/%D9%A1", 404),
        ("/inspector/" + "9" * 5000, 404),
        ("/inspector/%3Cscript%3E", 404),
        (f"/inspector?interface={MARKUP}", 400),
        ("/inspector?status=200", 400),
        (f"/inspector/events?status={MARKUP}", 400),
        (f"/inspector?done={MARKUP}", 200),
    ):
        answer = browser.get(path)
        assert (answer.status_code, seen(answer) != "") == (status, True), path
    assert "script" in seen(browser.get("/inspector/1"))


def test_buttons_move_the_clock_decide_and_request_faults(inside, browser, client):
    payment_id = client.initiate_payment(PAYMENT).payment_id
    answer = press(browser, "approve", number="1")
    assert (answer.status_code, answer.headers["location"]) == (303, "/inspector/1?done=approve")
    assert "Approved." in seen(browser.get(answer.headers["location"]))
    assert press(browser, "next").status_code == 303
    assert client.payment_status(payment_id).transaction_status == "ACSC"
    before = inside.now()
    assert press(browser, "advance", seconds="3600").headers["location"] == "/inspector?done=advance"
    assert (inside.now() - before).total_seconds() >= 3600
    for action, is_frozen in (("freeze", True), ("run", False)):
        assert press(browser, action).status_code == 303
        assert inside.control("GET", "/clock")["frozen"] is is_frozen
    assert press(browser, "fault", name="delay", count="2").status_code == 303
    assert press(browser, "fault", name="html", count="1", interface="psd2").status_code == 303
    found = inside.control("POST", "/faults", {"name": "drop"})
    assert [(one["name"], one["count"], one.get("interface")) for one in found] == [
        ("delay", 2, None), ("html", 1, "psd2"), ("drop", 1, None)
    ]  # fmt: skip
    assert press(browser, "clear").status_code == 303
    shop = inside.gateway.client()
    order = shop.create_order(OrderRequest(currency="EUR", amount=1250))
    press(browser, "approve", number="3")
    assert shop.delivery_state(order.id).delivery == "deliver"


def test_a_wrong_form_is_refused(inside, browser):
    with httpx.Client(base_url=inside.addresses.psd2_url, transport=inside.transport(inside.identity())) as http:
        http.get("/")
    for action, fields, status in (
        ("approve", {"number": "1"}, 400),  # nothing to decide
        ("approve", {"number": "99"}, 404),
        ("advance", {"seconds": "-5"}, 400),
        ("advance", {}, 400),
        ("fault", {"name": MARKUP}, 400),
        ("fault", {"name": "drop", "count": "1e9"}, 400),
        ("explode", {}, 400),
        ("next", {"number": "1\r\nset-cookie: a=b"}, 303),
        ("advance", {"seconds": "5", "x": "y" * 5000}, 400),
        ("next", {"token": "wrong"}, 403),
        ("next", {"token": ""}, 403),
        ("next", {"token": "\xe9\ud800".encode("utf-8", "surrogatepass")}, 403),
    ):
        answer = press(browser, action, **fields)
        assert (answer.status_code, answer.headers.get("location")) == (
            status,
            "/inspector?done=next" if status == 303 else None,
        ), fields


def test_a_page_of_another_origin_cannot_press_a_button(browser):
    token = re.search('name="token" value="([^"]+)"', browser.get("/inspector").text)
    for headers, status in (
        ({"Origin": "http://localhost:1"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "http://localhost:8446"}, 303),
        ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Dest": "document"}, 403),
        ({"Host": "evil.example"}, 421),
        ({"X-Forwarded-For": "127.0.0.1"}, 403),
    ):
        answer = browser.post("/inspector/actions", data={"token": token[1], "action": "next"}, headers=headers)
        assert answer.status_code == status, headers
    for dest, status in (("document", 200), ("image", 403), ("iframe", 403), ("empty", 403)):
        answer = browser.get("/inspector", headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": dest})
        assert answer.status_code == status, dest


def test_events_follow_the_requests_and_end(inside, client):
    inspector = inside._hosts.inspector

    async def follow(after: int, **shown: str) -> list[str]:
        found = []
        async for event in inspector.follow(Filter(**shown), after):
            found.append(event)
            if event.startswith("id: 2"):
                inspector.stop()
        return found

    client.initiate_payment(PAYMENT)
    with pytest.raises(RequestRefused):
        client.payment_status("absent")
    first, *rows = asyncio.run(follow(0))
    assert first.startswith("retry: ")
    assert [row.partition("\n")[0] for row in rows] == ["id: 1", "id: 2"]
    assert all(row.count("\n") == 3 and row.endswith("</tr>\n\n") for row in rows)
    assert len(asyncio.run(follow(0))) == 1  # it was stopped


def events(server: SandboxServer, stack: ExitStack, **headers: str) -> Iterator[str]:
    url = server.addresses.control_url + "/inspector/events?after=0"
    answer = stack.enter_context(httpx.stream("GET", url, headers=headers, trust_env=False, timeout=20))
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    return answer.iter_lines()


@pytest.mark.slow
def test_events_reach_a_few_readers_as_they_arrive_and_a_stop_ends_them(open_bank, connect):
    with ExitStack() as stack, open_bank(checked=False) as server:
        control = server.addresses.control_url
        readers = [events(server, stack) for _ in range(MAX_READERS)]
        caller = connect(server)
        caller.send(caller.message())
        for lines in readers:
            assert "SIGNATURE_MISSING" in next(line for line in lines if line.startswith("data: "))
        late = httpx.get(control + "/inspector/events", trust_env=False)
        assert late.status_code == 503
        assert f'href="{control}/inspector"' in httpx.get(server.addresses.approval_url, trust_env=False).text
        began = time.monotonic()
        server.stop()
        assert [*readers[0]][-1:] in ([], [""])
    assert time.monotonic() - began < 5


async def test_a_reader_that_does_not_read_is_cut_off(monkeypatch):
    monkeypatch.setattr(inspector_module, "_LAST_S", 0.1)
    latest = LatestRequests()
    inspector = Inspector(
        latest, [], interfaces=["psd2"], plain=[], decisions=[], faults={}, faulty=[], diagnoses=SealDiagnoses(PSD2_V1, {}, None),
        now=utc_now, token="x", life_s=0.1,
    )  # fmt: skip

    async def receive() -> Any:
        await asyncio.Event().wait()

    sent = []

    async def send(event: Any) -> None:
        sent.append(event)
        if event.get("body"):
            assert inspector.readers == 1
            await asyncio.Event().wait()

    scope = {
        "type": "http", "method": "GET", "path": "/inspector/events", "root_path": "", "query_string": b"", "client": ("127.0.0.1", 1),
        "headers": [(b"host", b"localhost")], "http_version": "1.1", "scheme": "http", "server": ("localhost", 1),
    }  # fmt: skip
    await asyncio.wait_for(Starlette(routes=inspector.routes)(scope, receive, send), 10)
    assert (len(sent), inspector.readers) == (2, 0)


@pytest.mark.slow
def test_a_reader_that_leaves_makes_room(open_bank, connect):
    with open_bank() as server:
        for _ in range(3 * MAX_READERS):
            with ExitStack() as stack:
                assert next(events(server, stack)) == "retry: 2000"
            while server.sandbox.inspector.readers >= MAX_READERS:
                time.sleep(0.01)


@pytest.mark.slow
def test_a_control_host_for_other_machines_has_no_inspector(open_bank):
    with open_bank(checked=False, control_host="127.0.0.1", control_token="0123456789abcdef") as server:
        token = {"Authorization": "Bearer 0123456789abcdef"}
        for path in ("", "/1", "/events", "/actions"):
            answer = httpx.get(f"{server.addresses.control_url}/inspector{path}", headers=token, trust_env=False)
            assert answer.status_code == 404
        assert "/inspector" not in httpx.get(server.addresses.approval_url, trust_env=False).text
