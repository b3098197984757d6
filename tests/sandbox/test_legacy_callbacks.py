"""Sending of callbacks: addresses, schedule, and the effects of faults."""

from __future__ import annotations

import subprocess
from datetime import timedelta
from itertools import pairwise

import httpx
import pytest
from legacy_provider import ORDER
from raw_provider import advance, control

from programs import needed
from tppkit._clock import parse_time

pytestmark = pytest.mark.slow

MINUTE, HOUR = 60, 3600


def test_each_attempt_is_made_at_its_time_however_far_the_clock_is_moved(notified, receiver):
    token = notified.access("pis")
    receiver.wait(1)
    for _ in range(6):
        receiver.answer(500)
    notified.paid(token)
    advance(notified.bank, 365 * 24 * HOUR)
    assert [one.json["ver"] for one in receiver.arrived[1:]] == [1] * 7 + [2]
    executed, posted = notified.deliveries()[:2]
    times = [parse_time(one["at"]) for one in posted["attempts"]]
    gaps = [round((later - earlier).total_seconds(), -1) for earlier, later in pairwise(times)]
    assert gaps == [10, MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, HOUR]
    assert parse_time(executed["attempts"][0]["at"]) - times[-1] < timedelta(seconds=10)


def test_the_clock_moves_to_the_next_due_time(notified, receiver):
    token = notified.access("pis")
    receiver.wait(1)
    receiver.answer(500)
    notified.paid(token)
    receiver.wait(2)
    before = parse_time(notified.control("/clock/next")["now"])  # the attempt after 10 seconds
    assert len(receiver.arrived) == 3
    assert parse_time(notified.control("/clock/next")["now"]) - before > timedelta(minutes=59)
    assert [one.json["tlc"] for one in receiver.wait(4)[1:]] == ["posted", "posted", "executed"]


@pytest.mark.parametrize(
    "name", ["wrong-key", "other-der", "truncated-body", "moved-boundary", "swapped-keys", "stale-ver"]
)
def test_a_fault_of_the_request_concerns_one_attempt(name, notified, receiver, connect_legacy):
    origin = receiver.url.removesuffix("/cb")
    notified.paid(notified.access("pis"))
    receiver.wait(2)
    notified.control("/faults", {"name": name, "sender": "legacy-test"})
    receiver.answer(302, Location=receiver.url)  # is not followed, and no acknowledgement
    advance(notified.bank, HOUR)
    advance(notified.bank, 11)
    bad, good = receiver.wait(4)[2:]
    assert notified.is_signed(good, origin)
    assert (good.json["tlc"], good.json["ver"]) == ("executed", 2)
    assert bad.headers["requestid"] != good.headers["requestid"]
    assert notified.is_signed(bad, origin) is (name in ("moved-boundary", "stale-ver"))
    assert (bad.body == good.body) is (name in ("wrong-key", "other-der", "swapped-keys"))
    assert (b'"ver":0' in bad.body) is (name == "stale-ver")
    assert bad.headers["signature"].startswith("3081") is (name == "other-der")
    assert (bad.path == good.path) is (name != "moved-boundary")
    assert connect_legacy(notified.bank, live=True).is_signed(bad, origin) is (name == "swapped-keys")


@pytest.mark.parametrize("host", ["test", "live"])
def test_openssl_verifies_a_callback_with_the_published_key(host, fresh_bank, receiver, connect_legacy, tmp_path):
    provider = connect_legacy(fresh_bank, live=host == "live")
    provider.control("/legacy/provider", {"callback_url": receiver.url})
    provider.access("pis")
    (one,) = receiver.wait(1)
    key = httpx.get(f"{fresh_bank.addresses.approval_url}/legacy/keys/{host}.pem", trust_env=False)
    (tmp_path / "key.pem").write_bytes(key.content)
    (tmp_path / "signature").write_bytes(bytes.fromhex(one.headers["signature"]))
    # The bytes are put together here by hand, from the document.
    signed = f"{one.headers['requestid']}{one.method}{receiver.url.removesuffix('/cb')}{one.path}".encode() + one.body
    command = [needed("openssl"), "dgst", "-sha256", "-verify", "key.pem", "-signature", "signature"]
    done = subprocess.run(command, input=signed, cwd=tmp_path, capture_output=True, timeout=30, check=False)
    assert done.stdout == b"Verified OK\n"


@pytest.mark.parametrize(
    ("status", "is_done"), [(200, True), (204, True), (302, False), (400, False), (403, False), (503, False)]
)
def test_each_2xx_ends_a_callback_and_every_other_answer_is_repeated(status, is_done, notified, receiver):
    receiver.answer(status)
    notified.access("pis")
    advance(notified.bank, 0)
    assert [one["state"] for one in notified.deliveries()] == ["acknowledged" if is_done else "waiting"]


def test_without_an_address_payments_work_and_nothing_is_sent(legacy):
    for url in ("https://localhost/cb", None):
        assert legacy.control("/legacy/provider", {"callback_url": url}) == {"callback_url": url}
    legacy.paid(legacy.access("pis"))
    assert legacy.deliveries() == []


@pytest.mark.parametrize(
    "url", ["http://localhost/", "https://localhost/cb?x=1", "https://a@localhost/", "", "https://"]
)
def test_an_address_of_another_form_is_refused(url, legacy):
    for body in ({"callback_url": url}, {"callback_url": "https://localhost/cb", "url": url}, {}, None):
        assert control(legacy.bank, "/legacy/provider", body).status_code == 400


def test_the_address_of_the_settings_is_stored_and_waiting_callbacks_are_sent_after_a_restart(
    open_bank, receiver, connect_legacy
):
    receiver.answer(500)
    with open_bank(callback_url=receiver.url + "/") as server:
        token = connect_legacy(server).access("pis")
        receiver.wait(1)
        advance(server, 0)
    with open_bank() as server:
        advance(server, 11)
        uuid = connect_legacy(server).paid(token, {**ORDER, "msg": "after the restart"})
        advance(server, HOUR)
    assert [one.path for one in receiver.arrived] == ["/cb/", "/cb/", f"/cb/{uuid}", f"/cb/{uuid}"]
