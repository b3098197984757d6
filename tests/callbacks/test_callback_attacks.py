"""The list of nasty callbacks, judged by our own verifier."""

from __future__ import annotations

import pytest
from calling import ACCESS, ACCESS_URL, AT, LIVE, RECEIVER, TEST
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from tppkit.callbacks import ReceivedCallback, verify_callback
from tppkit.callbacks.attacks import ATTACKS, Answer, Target
from tppkit.errors import CallbackRejected

TARGET = Target(key=LIVE, stranger=TEST, url=ACCESS_URL, body=ACCESS, name="run1")


def judged(attack) -> list[str]:
    verdicts = []
    for call in attack.make(TARGET):
        try:
            verify_callback(
                ReceivedCallback(call.method, call.target, call.headers, call.body), at=AT, receiver=RECEIVER
            )
            verdicts.append("holds")
        except CallbackRejected as e:
            verdicts.append(e.code)
    return verdicts


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_each_attack_gets_the_answer_it_should(attack):
    last = judged(attack)[-1]
    if attack.answer is Answer.REFUSED:
        assert last != "holds"
    else:
        assert last == "holds"


def test_each_rule_has_an_attack_of_its_own():
    codes = {verdict for attack in ATTACKS for verdict in judged(attack)}
    assert codes == {
        "holds", "callback.request-id", "callback.method", "callback.body", "callback.signature", "callback.signature-form",
        "callback.signature-range", "callback.header-missing", "callback.header-duplicate", "callback.too-large",
        "json.malformed", "json.too-deep", "json.duplicate-name",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["forged", "moved-boundary"])
def test_what_only_a_rule_refuses_has_a_good_signature(name):
    attack = next(attack for attack in ATTACKS if attack.name == name)
    call = attack.make(TARGET)[-1]
    (_, request_id), (_, signature) = call.headers
    data = request_id.encode() + call.method.encode() + ACCESS_URL.encode() + call.body
    LIVE.public_key().verify(bytes.fromhex(signature), data, ec.ECDSA(hashes.SHA256()))


def test_names_stand_once():
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS)


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        (Answer.ACCEPTED, {200, 202}),
        (Answer.REFUSED, {400, 401, 413, 501}),
        (Answer.HANDLED, {200, 202, 400, 401, 413, 501}),
    ],
)
def test_answers_have_classes(answer, right):
    assert {status for status in (100, 200, 202, 302, 400, 401, 413, 500, 501, 503) if answer.fits(status)} == right


def test_a_call_is_a_whole_http_message():
    call = ATTACKS[0].make(TARGET)[0]
    head, _, body = call.to_wire(host="127.0.0.1:8000").partition(b"\r\n\r\n")
    assert head.startswith(b"POST /cb/ HTTP/1.1\r\nHost: 127.0.0.1:8000\r\n")
    assert f"Content-Length: {len(ACCESS)}".encode() in head
    assert body == ACCESS
