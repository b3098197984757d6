"""The control host: only a developer on this machine can move the clock."""

from __future__ import annotations

from datetime import timedelta

import httpx
import pytest

from tppkit._clock import parse_time, utc_now
from tppkit.errors import ArchiveError, LocalProtocolError, TransportError
from tppkit.sandbox import SandboxServer
from tppkit.sandbox.control import Control, control_host

pytestmark = pytest.mark.slow


def advance_with(
    server: SandboxServer, content: bytes, content_type: str = "application/json", **headers: str
) -> httpx.Response:
    url, sent = server.addresses.control_url + "/clock/advance", {"Content-Type": content_type, **headers}
    return httpx.post(url, content=content, headers=sent, trust_env=False)


def now(server: SandboxServer) -> str:
    text = httpx.get(server.addresses.control_url + "/clock", trust_env=False).json()["now"]
    assert isinstance(text, str)
    return text


@pytest.mark.parametrize(
    ("seconds", "content_type"),
    [
        (0, "application/json"),
        (1, "application/json; charset=utf-8"),
        (0.5, "application/json ;x"),
        (300, "application/json"),
        (86_400, "application/json"),
    ],
)
def test_the_clock_is_moved_forward_by_json_with_or_without_parameters(seconds, content_type, fresh_bank):
    before = utc_now()
    moved = parse_time(advance_with(fresh_bank, b'{"seconds": %r}' % seconds, content_type).json()["now"])
    assert before <= moved - timedelta(seconds=seconds) <= utc_now()


@pytest.mark.parametrize("step_s", [0, 86_400])
def test_a_restart_keeps_the_clock(step_s, open_bank):
    with open_bank() as server:
        advance_with(server, b'{"seconds": %d}' % step_s)
        before = parse_time(now(server))
    with open_bank() as server:
        assert before <= parse_time(now(server)) <= utc_now() + timedelta(seconds=step_s)


FORM, JSON = "application/x-www-form-urlencoded", "application/json"


@pytest.mark.parametrize(
    ("content_type", "host", "status", "code"),
    [
        *((sent, "localhost", 400, "message.content-type")
          for sent in ("text/plain", FORM, "multipart/form-data", "", f"text/plain; {JSON}", f"{JSON}p")),
        *((JSON, host, 421, "control.host")
          for host in ("", "evil.example", "evil.example:8446", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1",
                       "[::2]", "::1", "0.0.0.0", "localhost:8446@evil.example", "localhost:x")),
    ],
)  # fmt: skip
def test_a_request_that_another_origin_or_a_name_pointed_at_loopback_can_send_does_not_move_the_clock(
    content_type, host, status, code, bank
):
    response = advance_with(bank, b'{"seconds": 300}', content_type, Host=host)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert parse_time(now(bank)) < utc_now() + timedelta(seconds=60)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "model.invalid"),
        (b"5", "model.invalid"),
        (b"{}", "model.invalid"),
        (b'{"seconds": -1}', "model.invalid"),
        (b'{"seconds": true}', "model.invalid"),
        (b'{"seconds": "5"}', "model.invalid"),
        (b'{"seconds": NaN}', "json.malformed"),
        (b'{"seconds": 1, "seconds": 2}', "json.duplicate-name"),
        (b'{"seconds": 1000000000}', "clock.backwards"),
        (b'{"seconds": 10000000000}', "model.invalid"),
        (b'{"seconds": ' + b"9" * 390 + b"}", "model.invalid"),
        (b'{"seconds": 1e999}', "json.malformed"),
        (b'{"seconds": -1e999}', "json.malformed"),
        (b" " * 5000, "message.too-large"),
    ],
)
def test_a_step_that_cannot_be_taken_is_refused(content, code, bank):
    response = advance_with(bank, content)
    assert (response.status_code, response.json()["error"]["code"]) == (400, code)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ArchiveError("archive.damaged", "no"), 503),
        (TransportError("database.unavailable", "no"), 503),
        (LocalProtocolError("payment.decided", "no"), 400),
    ],
)
async def test_a_temporary_failure_of_the_bank_is_answered_with_503(error, status):
    async def fails(parameters: object, body: object) -> None:
        raise error

    hosted = httpx.ASGITransport(control_host([Control("GET", "/", fails)]))
    async with httpx.AsyncClient(transport=hosted, base_url="http://localhost") as http:
        answer = await http.get("/")
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, error.code)


def test_a_browser_of_another_origin_is_not_allowed(bank):
    headers = {
        "Origin": "https://evil.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type",
    }
    response = httpx.options(bank.addresses.control_url + "/clock/advance", headers=headers, trust_env=False)
    assert response.status_code == 403
    assert not [name for name in response.headers if name.startswith("access-control-")]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "127.8.9.10:8446", "[::1]", "[::1]:8446"])
def test_a_loopback_name_is_answered(host, bank):
    response = httpx.get(bank.addresses.control_url + "/clock", headers={"Host": host}, trust_env=False)
    assert response.status_code == 200
