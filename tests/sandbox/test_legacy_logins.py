"""Login codes: the signed GET, the data that a customer grants, and the causes of a dead login."""

from __future__ import annotations

from typing import Any

import pytest
from legacy_provider import ONA, Legacy, Receiver
from raw_provider import control

pytestmark = pytest.mark.slow

ALL = ["NAME", "PHONE", "EMAIL", "ADDRESS", "ID"]


def code(receiver: Receiver) -> str:
    return f"LOGIN:{receiver.url.removeprefix('https://')}/login/7c1f"


def log_in(legacy: Legacy, receiver: Receiver, **fields: Any) -> Any:
    return legacy.control("/legacy/login", {"code": code(receiver), "customer": ONA, **fields})


def reason(legacy: Legacy, receiver: Receiver) -> str:
    answer = control(legacy.bank, "/legacy/login", {"code": code(receiver), "customer": ONA})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "login.dead")
    return str(answer.json()["error"]["message"])


@pytest.mark.parametrize(
    ("granted", "names"),
    [
        (None, {"id", "name", "phone", "email", "address", "city", "country", "code"}),
        (["ID", "ADDRESS"], {"id", "address", "city", "country", "code"}),
        ([], {"id"}),
    ],
)
def test_each_permission_can_be_declined(granted, names, legacy, receiver):
    receiver.answer(200, {"name": "Bookshop", "perm": ALL})
    log_in(legacy, receiver, **({} if granted is None else {"permissions": granted}))
    assert set(receiver.wait(2)[1].json) == names


@pytest.mark.parametrize(
    ("status", "body", "headers", "text"),
    [
        (200, {"name": "Bookshop", "perm": ["BIRTHDAY"]}, {}, "perm"),
        (200, {"perm": ["NAME"]}, {}, "name"),
        (200, {"name": "", "perm": []}, {}, "name"),
        (200, b"{", {}, "JSON"),
        (200, {"name": "Bookshop", "perm": []}, {"Content-Type": "text/html"}, "text/html"),
        (404, {"name": "Bookshop", "perm": []}, {}, "404"),
        (302, b"", {"Location": "https://localhost/"}, "302"),
        (200, b" " * 70_000, {}, "65536"),
        (200, {"name": "Bookshop", "perm": []}, {}, "4 s"),
    ],
)
def test_a_wrong_or_slow_answer_leaves_the_login_dead(status, body, headers, text, legacy, receiver):
    receiver.answer(status, body, **headers)
    receiver.delay_s = 4.5 if text == "4 s" else 0
    assert text in reason(legacy, receiver)
    assert len(receiver.arrived) == 1


@pytest.mark.parametrize("address", ["user@localhost/x", "localhost", "localhost/x#y", "LOCALHOST/x", ""])
def test_an_address_of_another_form_is_not_called(address, legacy):
    answer = control(legacy.bank, "/legacy/login", {"code": f"LOGIN:{address}"})
    assert answer.json()["error"]["code"].startswith("qr.")


def test_loopback_is_not_called_behind_a_public_name(open_bank, receiver):
    with open_bank(public_url="https://localhost:8443") as server:
        answer = control(server, "/legacy/login", {"code": code(receiver)})
    assert "outgoing.refused" in answer.json()["error"]["message"]
    assert receiver.arrived == []


@pytest.mark.parametrize(
    "body", [None, {}, {"code": 1}, {"permissions": "NAME"}, {"confirm": 1}, {"code": "TX:"}, {"customer": "nobody"}]
)
def test_a_body_of_another_form_is_refused(body, legacy):
    assert control(legacy.bank, "/legacy/login", body).status_code == 400


@pytest.mark.parametrize(
    "fields", [{"permissions": ["BIRTHDAY"]}, {"permissions": [["NAME"]]}, {"permission": ["NAME"]}, {"custmer": ONA}]
)
def test_an_unknown_permission_or_field_is_refused_before_the_code_is_called(fields, legacy, receiver):
    answer = control(legacy.bank, "/legacy/login", {"code": code(receiver), **fields})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "model.invalid")
    assert receiver.arrived == []
