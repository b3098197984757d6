"""The list of nasty callbacks, judged by our own verifier."""

from __future__ import annotations

import json

import pytest
from calling import ACCESS, ACCESS_URL, AT, LIVE, RECEIVER, TEST
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from refusals import refused
from tppkit.callbacks import CallbackAddress, CallbackKind, CallbackReceiver, CallbackRejected, Inbox, verify_callback
from tppkit.callbacks.attacks import ATTACKS, Answer, Target
from tppkit.errors import ConfigurationError
from tppkit.inbox.store import MemoryStore

ADDRESS = CallbackAddress(ACCESS_URL, CallbackKind.ACCESS)
TARGET = Target(key=LIVE, stranger=TEST, address=ADDRESS, body=ACCESS, name="run1")


def judged(attack, inbox: Inbox | None = None) -> list[str]:
    inbox = inbox or Inbox(RECEIVER, MemoryStore())
    verdicts = []
    for call in attack.make(TARGET):
        try:
            fault = inbox.accept(call, at=AT).fault
            verdicts.append("holds" if fault is None else fault.code)
        except CallbackRejected as e:
            verdicts.append(e.code)
    return verdicts


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_each_attack_gets_the_answer_it_should(attack):
    last = judged(attack)[-1]
    if attack.answer is Answer.REFUSED:
        assert last != "holds"
    else:
        assert last in ("holds", "callback.unreadable")


def test_each_rule_has_an_attack_of_its_own():
    codes = {verdict for attack in ATTACKS for verdict in judged(attack)}
    assert codes == {
        "holds", "callback.request-id", "callback.method", "callback.body", "callback.signature", "callback.signature-form",
        "callback.address", "callback.request-id-reused", "callback.unreadable", "callback.signature-range", "callback.header-missing",
        "callback.header-duplicate", "callback.too-large",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["forged", "moved-boundary"])
def test_what_only_a_rule_refuses_has_a_good_signature(name):
    attack = next(attack for attack in ATTACKS if attack.name == name)
    call = attack.make(TARGET)[-1]
    (_, request_id), (_, signature), _ = call.headers
    data = request_id.encode() + call.method.encode() + ACCESS_URL.encode() + call.body
    LIVE.public_key().verify(bytes.fromhex(signature), data, ec.ECDSA(hashes.SHA256()))


def test_names_appear_once():
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


@pytest.mark.parametrize(("name", "header"), [("other-host", "Host"), ("forwarded-host", "X-Forwarded-Host")])
def test_the_host_that_was_signed_is_in_the_header(name, header):
    attack = next(attack for attack in ATTACKS if attack.name == name)
    (call,) = attack.make(TARGET)
    assert (header, "stranger.example") in call.headers
    data = call.headers[0][1].encode() + b"POSThttps://stranger.example/cb/" + call.body
    LIVE.public_key().verify(bytes.fromhex(call.headers[1][1]), data, ec.ECDSA(hashes.SHA256()))


def test_a_record_with_a_version_comes_late():
    body = b'{"id":"x","ver":4}'
    target = Target(key=LIVE, stranger=TEST, address=ADDRESS, body=body, name="run1")
    newer, older = next(attack for attack in ATTACKS if attack.name == "stale").make(target)
    assert [json.loads(call.body)["ver"] for call in (newer, older)] == [5, 4]
    assert newer.headers[0] != older.headers[0]


def test_an_address_that_ends_with_a_token_is_signed_with_one():
    address = CallbackAddress(ACCESS_URL + "{token}", CallbackKind.PAYMENT)
    with refused(ConfigurationError, "callback.address-unusable"):
        Target(key=LIVE, stranger=TEST, address=address, body=ACCESS, name="run1")


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_a_path_that_a_proxy_shortens_is_attacked_as_well(attack):
    address = CallbackAddress("https://tpp.example/app/cb/", CallbackKind.ACCESS)
    receiver = CallbackReceiver([address], keys=RECEIVER.keys, stripped_prefix="/app")
    target = Target(key=LIVE, stranger=TEST, address=address, body=ACCESS, name="run1", path="/cb/")
    calls = attack.make(target)
    known = ("/cb/", "/cb%2F", "/cb/?not-ours=run1", "/cb/not-ours-run1", "https://stranger.example/app/cb/")
    assert all(call.target in known for call in calls)
    inbox = Inbox(receiver, MemoryStore())
    for call in calls[:-1]:
        inbox.accept(call, at=AT)
    if attack.answer is Answer.REFUSED:
        with pytest.raises(CallbackRejected):
            inbox.accept(calls[-1], at=AT)
    else:
        inbox.accept(calls[-1], at=AT)


@pytest.mark.parametrize(
    ("path", "targets"),
    [
        ("/cb/", ["/cb/?not-ours=run1", "/cb/not-ours-run1"]),
        ("/cb?kind=a/b", ["/cb?kind=a/b&not-ours=run1", "/not-ours-run1"]),
        ("/a/" + "0" * 20, [f"/a/{'0' * 20}?not-ours=run1", "/a/not-ours-run1"]),
    ],
)
@pytest.mark.parametrize("before", ["", "/app"])
def test_what_is_beside_an_address_has_a_good_signature(before, path, targets):
    address = CallbackAddress(f"https://tpp.example{before}{path}", CallbackKind.OTHER)
    target = Target(key=LIVE, stranger=TEST, address=address, body=ACCESS, name="run1", path=path)
    makes = [attack.make for attack in ATTACKS if attack.name in ("other-query", "other-path")]
    calls = [make(target)[0] for make in makes]
    assert [call.target for call in calls] == targets
    own = CallbackReceiver([address], keys=RECEIVER.keys, stripped_prefix=before)
    for call in calls:
        beside = CallbackAddress(f"https://tpp.example{before}{call.target}", CallbackKind.OTHER)
        assert verify_callback(
            call, at=AT, receiver=CallbackReceiver([beside], keys=RECEIVER.keys, stripped_prefix=before)
        )
        with refused(CallbackRejected, "callback.address"):
            verify_callback(call, at=AT, receiver=own)
