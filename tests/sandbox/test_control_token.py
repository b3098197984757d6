"""Control from other machines: with the token, by a name of the sandbox, and from no web page."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import httpx
import pytest

from programs import TPPKIT
from tppkit.errors import ConfigurationError
from tppkit.sandbox import SandboxSettings, run_sandbox
from tppkit.sandbox.control import Control, control_host

TOKEN = "0123456789abcdef-token"
RIGHT = f"Bearer {TOKEN}"


async def answer_of(headers: Any, *, token: str | None = TOKEN, method: str = "GET") -> tuple[int, str, httpx.Headers]:
    """Status, code and headers of the answer of a control host named `sandbox`, `*.bank.example` and `10.0.0.7`."""

    async def answer(parameters: object, body: object) -> dict[str, str]:
        return {"done": "yes"}

    app = control_host([Control(method, "/", answer)], names={"sandbox", "*.bank.example", "10.0.0.7"}, token=token)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://sandbox:8446") as http:
        given = await http.request(method, "/", headers=headers)
    return given.status_code, given.json().get("error", {}).get("code", ""), given.headers


@pytest.mark.parametrize(
    "sent",
    [
        [], ["Bearer"], ["Bearer "], ["Basic dXNlcjo="], [TOKEN], [f"Basic {TOKEN}"], [f"Bearer {TOKEN}x"], [f"Bearer {TOKEN[:-1]}"],
        [f"Bearer {TOKEN.upper()}"], [f"Bearer {TOKEN} {TOKEN}"], [RIGHT, RIGHT], [RIGHT, "Bearer other"], ["Bearer \xe9" + TOKEN],
    ],
)  # fmt: skip
async def test_a_call_without_the_token_is_answered_with_401(sent):
    status, code, headers = await answer_of([("authorization", value.encode("latin-1")) for value in sent])
    assert (status, code, headers["www-authenticate"]) == (401, "control.unauthorized", 'Bearer realm="control"')


@pytest.mark.parametrize("sent", [RIGHT, f"bearer {TOKEN}", f"BEARER   {TOKEN}"])
async def test_a_call_with_the_token_is_answered(sent):
    assert (await answer_of({"Authorization": sent}))[:2] == (200, "")


@pytest.mark.parametrize(
    "host", ["sandbox", "SANDBOX:1", "10.0.0.7:8446", "eu.bank.example", "localhost", "127.0.0.1:8446", "[::1]:1"]
)
async def test_the_own_names_are_answered(host):
    assert (await answer_of({"Authorization": RIGHT, "Host": host}))[:2] == (200, "")


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "sandbox.evil.example", "bank.example", "a.b.bank.example", "*.bank.example", "10.0.0.8", "", ":8446",
        "[10.0.0.7", "sandbox:8446@evil.example",
    ],
)  # fmt: skip
async def test_another_name_is_refused_even_with_the_token(host):
    assert (await answer_of({"Authorization": RIGHT, "Host": host}))[:2] == (421, "control.host")


@pytest.mark.parametrize("token", [TOKEN, None])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example", "null", "", "http://sandbox.evil.example", "http://sandbox@evil.example", "http://sandbox:3000",
        "http://sandbox", "https://sandbox:8446", "http://localhost:8446", "http://127.0.0.1:8446", "sandbox:8446",
    ],
)  # fmt: skip
async def test_a_page_of_another_origin_is_refused(origin, method, token):
    sent = {"Authorization": RIGHT, "Origin": origin, "Content-Type": "application/json"}
    assert (await answer_of(sent, token=token, method=method))[:2] == (403, "control.origin")


@pytest.mark.parametrize("host", ["sandbox:8446", "localhost:8446", "127.0.0.1:8446", "[::1]:8446", "LOCALHOST:8446"])
async def test_a_page_of_the_own_origin_is_answered(host):
    sent = {"Authorization": RIGHT, "Host": host, "Origin": f"http://{host.lower()}"}
    assert (await answer_of(sent))[:2] == (200, "")


async def test_a_program_on_this_machine_serves_pages_of_another_origin():
    sent = {"Host": "localhost:8446", "Origin": "http://localhost:3000"}
    assert (await answer_of(sent, token=None))[:2] == (403, "control.origin")


@pytest.mark.parametrize(
    "token", [None, "", "short", "0123456789abcde", "0123456789abcdef\n", "0123456789 abcdef", "é" * 20, "x" * 600]
)
def test_a_missing_or_weak_token_is_refused_before_anything_is_made(token, tmp_path):
    with pytest.raises(ConfigurationError) as caught:
        SandboxSettings(tmp_path / "bank", control_host="0.0.0.0", control_token=token)
    assert caught.value.code == "control.token"
    assert not token or token not in str(caught.value)


def test_the_token_is_in_no_representation():
    settings = SandboxSettings("bank", control_host="0.0.0.0", control_token=TOKEN)  # type: ignore[arg-type]  # a text is taken too
    assert TOKEN not in repr(settings)


@pytest.mark.slow
def test_control_listens_on_its_own_address_and_publishes_neither_the_token_nor_0_0_0_0(bank_pki_folder, tmp_path):
    lines: list[str] = []
    for control, shown in (("0.0.0.0", "localhost"), ("127.0.0.9", "127.0.0.9")):
        settings = SandboxSettings(tmp_path, pki=bank_pki_folder, control_host=control, control_token=TOKEN)
        with run_sandbox(settings, log=lines.append) as server:
            url = server.addresses.control_url
            assert url == f"http://{shown}:{server.ports['control']}"
            for headers, status in (({}, 401), ({"Authorization": RIGHT}, 200)):
                assert httpx.get(f"{url}/clock", headers=headers, trust_env=False).status_code == status
            server.addresses.write(tmp_path / "ready.json")
            assert TOKEN not in (tmp_path / "ready.json").read_text() + repr(server.addresses) + "".join(lines)
    assert lines == ["GET /clock 401 control.unauthorized", "GET /clock 200"] * 2


def run(*arguments: str, token: str | None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "TPPKIT_CONTROL_TOKEN"}
    environment |= {} if token is None else {"TPPKIT_CONTROL_TOKEN": token}
    return subprocess.run(
        [str(TPPKIT), "sandbox", *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.slow
def test_the_command_starts_nothing_without_a_token(tmp_path):
    done = run("up", "--control-host", "127.0.0.1", "--dir", str(tmp_path / "bank"), token=None)
    assert (done.returncode, "TPPKIT_CONTROL_TOKEN" in done.stderr) == (2, True)
    assert not (tmp_path / "bank").exists()


@pytest.mark.slow
def test_the_commands_send_the_token(bank_pki_folder, tmp_path):
    settings = SandboxSettings(tmp_path, pki=bank_pki_folder, control_host="127.0.0.1", control_token=TOKEN)
    with run_sandbox(settings) as server:
        control = ("--json", "--control", server.addresses.control_url)
        assert json.loads(run("clock", "freeze", *control, token=TOKEN).stdout)["frozen"]
        done = run("clock", "show", *control, token=None)
        assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (3, "request.refused")
