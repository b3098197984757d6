"""Faults of deliveries: requested by name at the control host, and used up."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from tppkit.errors import FormatError
from tppkit.sandbox.control import control_host
from tppkit.sandbox.faults import FAULTS, INTERFACE_FAULTS, MAX_WAITING, OF_TRANSPORT, Fault, Faults, parse_fault

SENDER, OTHER = "legacy-test", "gateway"


@pytest.fixture
def faults() -> Faults:
    return Faults({OTHER: ("order", "search")})


def ask(faults: Faults, method: str, body: Any = None) -> Any:
    async def main() -> httpx.Response:
        transport = httpx.ASGITransport(control_host(faults.control({SENDER: FAULTS, OTHER: OF_TRANSPORT})))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            content = None if body is None else json.dumps(body)  # also NaN
            return await http.request(method, "/faults", content=content, headers={"Content-Type": "application/json"})

    response = asyncio.run(main())
    return response.status_code, response.json()


def test_a_fault_is_used_as_often_as_it_was_requested(faults):
    assert ask(faults, "POST", {"name": "drop"}) == (200, [{"name": "drop", "count": 1}])
    assert ask(faults, "POST", {"name": "drop", "count": 2})[0] == 200
    assert faults.take("duplicate", sender=SENDER) is None
    assert [faults.take("drop", sender=SENDER) is not None for _ in range(4)] == [True, True, True, False]


def test_a_fault_of_one_sender_waits_for_its_deliveries(faults):
    ask(faults, "POST", {"name": "drop", "sender": OTHER})
    waits = [{"name": "drop", "count": 1, "sender": OTHER}, {"name": "drop", "count": 1}]
    assert ask(faults, "POST", {"name": "drop"}) == (200, waits)
    found = [faults.take("drop", sender=one) for one in (SENDER, SENDER, OTHER)]
    assert found == [Fault("drop", count=0), None, Fault("drop", count=0, sender=OTHER)]


def test_a_delay_has_its_time(faults):
    ask(faults, "POST", {"name": "delay", "delay_s": 90})
    assert faults.take("delay", sender=SENDER) == Fault("delay", count=0, delay_s=90)


def test_they_can_be_cleared(faults):
    ask(faults, "POST", {"name": "drop", "count": 5})
    assert ask(faults, "DELETE") == (200, [])
    assert faults.take("drop", sender=SENDER) is None


def test_a_loop_that_asks_for_faults_fills_no_memory(faults):
    answers = [ask(faults, "POST", {"name": "drop"})[0] for _ in range(MAX_WAITING)]
    assert answers == [200] * MAX_WAITING
    status, answer = ask(faults, "POST", {"name": "drop"})
    assert (status, answer["error"]["code"]) == (400, "fault.too-many")


def test_an_unknown_name_is_refused_with_the_list(faults):
    status, answer = ask(faults, "POST", {"name": "explode"})
    assert (status, answer["error"]["code"]) == (400, "fault.unknown")
    assert all(name in answer["error"]["message"] for name in FAULTS)


def test_a_wrong_place_is_refused_with_those_that_there_are(faults):
    for wrong, names in (
        ({"name": "explode"}, INTERFACE_FAULTS), ({"interface": "bank"}, [OTHER]), ({"endpoint": "pay"}, ["order", "search"]),
    ):  # fmt: skip
        status, answer = ask(faults, "POST", {"name": "html", "interface": OTHER} | wrong)
        assert status == 400
        assert all(name in answer["error"]["message"] for name in names)


def test_a_fault_of_an_interface_is_used_by_the_requests_that_fit(faults):
    ask(faults, "POST", {"name": "late", "interface": OTHER, "endpoint": "search", "delay_s": 2})
    assert ask(faults, "POST", {"name": "server-expired", "interface": OTHER})[0] == 200
    assert ask(faults, "POST", {"name": "html", "interface": OTHER, "count": 2})[1][0] == {
        "name": "late", "count": 1, "delay_s": 2.0, "interface": OTHER, "endpoint": "search"
    }  # fmt: skip
    taken = [faults.take_for_request(OTHER, endpoint=one) for one in ("order", "search", None, "search")]
    assert [one and one.name for one in taken] == ["html", "late", "html", None]
    assert [faults.take_for_handshake(one) for one in ("vault", OTHER, OTHER)] == [False, True, False]
    assert faults.is_empty


def test_a_fault_of_an_interface_is_read_from_words():
    interfaces = {OTHER: ("order",)}
    assert parse_fault(f"{OTHER}  late 3 order", interfaces) == Fault("late", 3, interface=OTHER, endpoint="order")
    for wrong in (
        "", OTHER, f"{OTHER} late 0", f"{OTHER} late x", f"{OTHER} late \u0663 order", f"{OTHER} late 1 order 2", f"{OTHER} drop",
        f"{OTHER} late 1 none", "bank late", f"{OTHER} late {'9' * 5000}",
    ):  # fmt: skip
        with pytest.raises(FormatError):
            parse_fault(wrong, interfaces)


@pytest.mark.parametrize(
    "body",
    [
        None, [], {}, {"name": 1}, {"name": "drop", "count": 0}, {"name": "drop", "count": True}, {"name": "drop", "other": 1},
        {"name": "delay", "delay_s": -1}, {"name": "delay", "delay_s": "1"}, {"name": "drop", "count": 1.5},
        {"name": "drop", "sender": "other"}, {"name": "drop", "sender": []},
        {"name": "stale-ver", "sender": OTHER}, {"name": "drop", "endpoint": "order"}, {"name": "late"},
        {"name": "late", "interface": "none"}, {"name": "late", "interface": []}, {"name": "drop", "interface": "gateway"},
        *({"name": "late", "interface": "gateway", **wrong} for wrong in (
            {"count": 0}, {"count": -1}, {"count": 10**9}, {"count": True}, {"count": "1"}, {"delay_s": 601}, {"delay_s": -1},
            {"delay_s": float("nan")}, {"delay_s": True}, {"endpoint": "none"}, {"endpoint": ["order"]}, {"sender": OTHER}, {"more": 1},
        )),
        {"name": "server-expired", "interface": "gateway", "endpoint": "order"},
        {"name": "drop", "delay_s": 3}, {"name": "status-429", "interface": "gateway", "delay_s": 3},
    ],
)  # fmt: skip
def test_an_empty_request_for_faults_is_rejected(body, faults):
    assert ask(faults, "POST", body)[0] == 400


def test_a_running_sandbox_lists_and_deletes_requested_faults(bank):
    with httpx.Client(base_url=bank.addresses.control_url, trust_env=False) as control:
        assert control.post("/faults", json={"name": "reorder"}).json() == [{"name": "reorder", "count": 1}]
        assert control.delete("/faults").json() == []
        assert control.post("/clock/advance", json={"seconds": 0}).status_code == 200
