"""How callbacks are sent: the schedule, whom they reach, and what faults make of them."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from legacy_provider import ORDER, ConnectLegacy, Legacy, Receiver, receiving
from raw_provider import advance, checked_sandbox, control

from tppkit._clock import parse_time, utc_now
from tppkit.sandbox import SandboxServer, SandboxSettings
from tppkit.testpki import Pki, make_pki

MINUTE, HOUR = 60, 3600


@pytest.fixture
def tpp(fresh_bank: SandboxServer, connect_legacy: ConnectLegacy, receiver: Receiver) -> Legacy:
    made = connect_legacy(fresh_bank)
    made.control("/legacy/provider", {"callback_url": receiver.url})
    return made


def fault(legacy: Legacy, name: str, **fields: Any) -> None:
    legacy.control("/faults", {"name": name, **fields})


def granted(legacy: Legacy, receiver: Receiver) -> str:
    token, before = legacy.access(), len(receiver.arrived)
    receiver.wait(max(before, 1))
    return token


def attempts(legacy: Legacy) -> list[str]:
    return [one["text"] for one in legacy.deliveries()[0]["attempts"]]


def test_story_7_a_callback_is_repeated_by_the_schedule_until_it_is_acknowledged(
    tpp: Legacy, receiver: Receiver
) -> None:
    for _ in range(3):
        receiver.answer(500)
    tpp.access()
    receiver.wait(1)
    advance(tpp.bank, 0)
    arrived = []
    for seconds in (4, 7, MINUTE, 5 * MINUTE, HOUR, 24 * HOUR):
        advance(tpp.bank, seconds)
        arrived.append(len(receiver.arrived))
    assert arrived == [1, 2, 3, 4, 4, 4]
    assert len({one.body for one in receiver.arrived}) == 1
    assert len({one.headers["requestid"] for one in receiver.arrived}) == 4
    assert all(tpp.is_signed(one, receiver.url.removesuffix("/cb")) for one in receiver.arrived)
    assert attempts(tpp) == ["status 500"] * 3 + ["status 200"]


def test_each_attempt_is_made_at_its_time_however_far_the_clock_is_moved(tpp: Legacy, receiver: Receiver) -> None:
    token = tpp.access("pis")
    receiver.wait(1)
    for _ in range(6):
        receiver.answer(500)
    tpp.paid(token)
    advance(tpp.bank, 365 * 24 * HOUR)
    assert [one.json["ver"] for one in receiver.arrived[1:]] == [1] * 7 + [2]
    executed, posted = tpp.deliveries()[:2]
    times = [parse_time(one["at"]) for one in posted["attempts"]]
    gaps = [round((later - earlier).total_seconds(), -1) for earlier, later in pairwise(times)]
    assert gaps == [10, MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, HOUR]
    assert parse_time(executed["attempts"][0]["at"]) - times[-1] < timedelta(seconds=10)


def test_a_callback_is_given_up_after_a_day(tpp: Legacy, receiver: Receiver) -> None:
    for _ in range(60):
        receiver.answer(302, Location=receiver.url)
    tpp.access()
    receiver.wait(1)
    advance(tpp.bank, 50 * HOUR)
    last = tpp.deliveries()[0]
    assert (last["state"], last["due_at"]) == ("given up", None)
    assert len(receiver.arrived) == 28
    assert set(attempts(tpp)) == {"status 302"}


@pytest.mark.parametrize(("trusted", "name"), [(False, "localhost"), (True, "elsewhere.example")])
def test_story_8_a_receiver_without_a_valid_certificate_gets_nothing(
    trusted: bool, name: str, tpp: Legacy, bank_pki: Pki, tmp_path: Path
) -> None:
    pki = bank_pki if trusted else make_pki(at=utc_now())
    with receiving(pki.issuing_from(utc_now()).issue_server(name, label=name), tmp_path) as stranger:
        tpp.control("/legacy/provider", {"callback_url": stranger.url})
        tpp.access()
        advance(tpp.bank, 0)
        assert stranger.arrived == []
    assert "outgoing.certificate" in attempts(tpp)[0]


def test_an_expired_certificate_gets_nothing(tpp: Legacy, bank_pki: Pki, tmp_path: Path) -> None:
    old = make_pki(at=utc_now() - timedelta(days=4000), seed=11)
    with receiving(old.server, tmp_path) as stranger:
        tpp.control("/legacy/provider", {"callback_url": stranger.url})
        tpp.access()
        advance(tpp.bank, 0)
        assert stranger.arrived == []
    assert "outgoing.certificate" in attempts(tpp)[0]


def test_the_second_report_of_a_payment_waits_for_the_first(tpp: Legacy, receiver: Receiver) -> None:
    token = tpp.access("pis")
    receiver.wait(1)
    receiver.answer(500)
    tpp.paid(token)
    receiver.wait(2)
    before = parse_time(tpp.control("/clock/next")["now"])  # the attempt after 10 seconds
    assert len(receiver.arrived) == 3
    assert parse_time(tpp.control("/clock/next")["now"]) - before > timedelta(minutes=59)
    assert [one.json["tlc"] for one in receiver.wait(4)[1:]] == ["posted", "posted", "executed"]


@pytest.mark.parametrize("name", ["wrong-key", "other-der", "truncated-body", "moved-boundary", "swapped-keys"])
def test_a_fault_of_the_signature_concerns_one_attempt(
    name: str, tpp: Legacy, receiver: Receiver, connect_legacy: ConnectLegacy
) -> None:
    origin = receiver.url.removesuffix("/cb")
    fault(tpp, name)
    receiver.answer(400)
    tpp.access()
    receiver.wait(1)
    advance(tpp.bank, 11)
    bad, good = receiver.wait(2)
    assert tpp.is_signed(good, origin)
    assert tpp.is_signed(bad, origin) is (name == "moved-boundary")
    assert bad.headers["signature"].startswith("3081") is (name == "other-der")
    assert (bad.path == "/cb/") is (name != "moved-boundary")
    assert connect_legacy(tpp.bank, live=True).is_signed(bad, origin) is (name == "swapped-keys")


def test_faults_of_the_way_duplicate_reorder_and_age_reports(tpp: Legacy, receiver: Receiver) -> None:
    token = tpp.access("pis")
    receiver.wait(1)
    for name in ("reorder", "duplicate"):
        fault(tpp, name)
    tpp.paid(token)
    advance(tpp.bank, HOUR)
    assert [one.json["ver"] for one in receiver.wait(4)[1:]] == [2, 2, 1]
    fault(tpp, "stale-ver")
    tpp.paid(token)
    receiver.wait(5)
    advance(tpp.bank, HOUR)
    assert [(one.json["tlc"], one.json["ver"]) for one in receiver.wait(6)[4:]] == [("posted", 1), ("executed", 0)]


def test_without_an_address_payments_work_and_nothing_is_sent(legacy: Legacy) -> None:
    legacy.paid(legacy.access("pis"))
    assert legacy.deliveries() == []


@pytest.mark.parametrize(
    "url", ["http://localhost/", "https://localhost/cb?x=1", "https://a@localhost/", "", "https://"]
)
def test_an_address_of_another_form_is_refused(url: str, legacy: Legacy, tmp_path: Path) -> None:
    for body in ({"callback_url": url}, {}, None):
        assert control(legacy.bank, "/legacy/provider", body).status_code == 400


def test_the_address_of_the_settings_is_kept_and_what_waits_is_sent_after_a_restart(
    tmp_path: Path, bank_pki_folder: Path, receiver: Receiver, connect_legacy: ConnectLegacy
) -> None:
    settings = SandboxSettings(tmp_path / "bank", pki=bank_pki_folder, callback_url=receiver.url + "/")
    receiver.answer(500)
    with checked_sandbox(settings) as server:
        token = connect_legacy(server).access("pis")
        receiver.wait(1)
        advance(server, 0)
    with checked_sandbox(SandboxSettings(tmp_path / "bank", pki=bank_pki_folder)) as server:
        advance(server, 11)
        again = connect_legacy(server)
        uuid = again.paid(token, {**ORDER, "msg": "after the restart"})
        advance(server, HOUR)
    assert [one.path for one in receiver.arrived] == ["/cb/", "/cb/", f"/cb/{uuid}", f"/cb/{uuid}"]
