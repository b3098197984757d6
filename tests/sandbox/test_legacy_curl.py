"""The legacy interface by `curl` and `openssl` alone: every row, control call, callback and form of code, at both hosts."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from legacy_provider import DAILY, FOREIGN, ONA, ONA_PHONE, ORDER, Arrived, Receiver, new_id
from raw_provider import curl

from programs import needed
from tppkit.protocol.legacy.endpoints import (
    BALANCE,
    LEGACY,
    PAY,
    REQUEST_ACCOUNT_ACCESS,
    REQUEST_PAYMENT_ACCESS,
    TRANSACTION_LIST,
)
from tppkit.sandbox import SandboxServer

TX = f"TX:{FOREIGN}:Bookshop:EUR:12.50:SHOP:Order 4711"


class Shell:
    """Runs the programs for one host of a sandbox whose callbacks go to a receiver.

    Attributes:
        called: the rows that were.
    """

    def __init__(self, bank: SandboxServer, folder: Path, root: Path, receiver: Receiver, host: str) -> None:
        at = bank.addresses
        self.pages, self._control, self.host = at.approval_url, at.control_url, host
        self.url, self._key = {
            "test": (at.legacy_url, at.legacy_api_key),
            "live": (at.legacy_live_url, at.legacy_live_api_key),
        }[host]
        self._folder, self._root, self._receiver, self._verified = folder, root, receiver, 0
        self.called: set[str] = set()
        self.control("/legacy/provider", {"callback_url": receiver.url})
        (folder / "key.pem").write_text(self.curl(f"{self.pages}/legacy/keys/{host}.pem")[1])

    def curl(self, *options: str, body: Any = None) -> tuple[int, str, str]:
        return curl(self._root, *options, body=body)

    def control(self, path: str, body: Any = None, *options: str) -> Any:
        """A control call that must succeed."""
        status, answer, _ = self.curl(self._control + path, *options, body=body)
        assert status == 200, answer
        return json.loads(answer)

    def decide(self, path: str, **choice: str) -> str:
        """The state after a customer's decision."""
        return str(self.control(f"/legacy/{path}", {"host": self.host, **choice})["state"])

    def call(self, row: Any, body: Any = None, **parameters: str) -> Any:
        """A row that must succeed: the JSON of its answer, None for an empty one."""
        self.called.add(row.name)
        key = ("-H", f"Authorization: {self._key}")
        status, answer, _ = self.curl(self.url + row.target(**parameters), *key, body=body)
        assert status == 200, answer
        return json.loads(answer) if answer else None

    def arrived(self, count: int) -> list[Arrived]:
        """The next requests that the receiver gets, each of which openssl verifies."""
        found = self._receiver.wait(self._verified + count)[self._verified :]
        self._verified += len(found)
        for one in found:
            signed = f"{one.headers['requestid']}{one.method}{self._receiver.url.removesuffix('/cb')}{one.path}"
            (self._folder / "signed").write_bytes(signed.encode() + one.body)
            (self._folder / "signature").write_bytes(bytes.fromhex(one.headers["signature"]))
            command = [needed("openssl"), "dgst", "-sha256", "-verify", "key.pem", "-signature", "signature", "signed"]
            done = subprocess.run(command, cwd=self._folder, capture_output=True, text=True, timeout=30, check=False)
            assert done.stdout == "Verified OK\n", one
        return found

    def scan(self, code: str, **choice: str) -> str:
        """What a customer's browser does with the link of a code: the last page."""
        status, page, address = self.curl("-L", f"{self.url}/scan?{quote(code, safe='')}")
        for fields in ({"customer": ONA}, {**choice, "action": "approve"}):
            assert status == 200, page
            hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page.partition("</form>")[0]))
            action = re.search(r'<form method="post" action="([^"]+)"', page)
            url = address if action is None else self.pages + action[1]
            pairs = [f"{name}={value}" for name, value in {**hidden, **fields}.items()]
            status, page, address = self.curl(
                "-L", url, *(word for pair in pairs for word in ("--data-urlencode", pair))
            )
        assert status == 200, page
        return page


@pytest.fixture(params=["test", "live"])
def shell(
    bank: SandboxServer, bank_pki_folder: Path, tmp_path: Path, receiver: Receiver, request: pytest.FixtureRequest
) -> Shell:
    return Shell(bank, tmp_path, bank_pki_folder / "root.pem", receiver, request.param)


def test_curl_drives_every_row_and_openssl_verifies_every_callback(shell):
    reads, pays, refused = new_id(), new_id(), new_id()
    for row, token in (
        (REQUEST_ACCOUNT_ACCESS, reads),
        (REQUEST_PAYMENT_ACCESS, pays),
        (REQUEST_PAYMENT_ACCESS, refused),
    ):
        assert shell.call(row, {"acc": ONA_PHONE}, access_token=token) is None
    assert shell.decide(f"access/{refused}/decline") == "declined"
    for token in (reads, pays):
        assert shell.decide(f"access/{token}/approve", customer=ONA, iban=DAILY) == "granted"
        (grant,) = shell.arrived(1)
        assert (grant.path, grant.json["token"]) == ("/cb/", token)
    before = shell.call(BALANCE, access_token=reads)["EUR"]

    paid, declined = new_id(), new_id()
    for uuid in (paid, declined):
        shell.call(PAY, ORDER, access_token=pays, uuid=uuid)
    assert shell.decide(f"payments/{declined}/decline") == "declined"
    reported = shell.arrived(1)
    assert shell.control("/faults", {"name": "duplicate"}) == [{"name": "duplicate", "count": 1}]
    assert shell.control("/faults", None, "-X", "DELETE") == []
    assert shell.decide(f"payments/{paid}/approve") == "posted"
    reported += shell.arrived(1)
    shell.control("/clock/advance", {"seconds": 3600})
    reported += shell.arrived(1)
    assert [(one.path, one.json["tlc"]) for one in reported] == [
        (f"/cb/{declined}", "declined"), (f"/cb/{paid}", "posted"), (f"/cb/{paid}", "executed"),
    ]  # fmt: skip
    assert reported[1].json["id"] == reported[2].json["id"]
    assert round(before - shell.call(BALANCE, access_token=reads)["EUR"], 2) == 12.5
    listed = shell.call(TRANSACTION_LIST, access_token=reads)[0]
    assert (listed["id"], listed["amount"]) == (reported[-1].json["id"], ["EUR-12.50"])
    assert {one["state"] for one in shell.control("/legacy/deliveries")[:5]} == {"acknowledged"}
    assert shell.called == {row.name for row in LEGACY.endpoints}


def test_curl_scans_codes_and_openssl_verifies_logins(shell, receiver):
    assert "Payment approved" in shell.scan(TX, iban=DAILY)
    login = f"LOGIN:{receiver.url.removeprefix('https://')}/login"
    asked = {"name": "Bookshop", "perm": ["NAME", "PHONE"], "code": "4711"}
    receiver.answer(200, asked)
    assert "You are logged in" in shell.scan(login, permission="PHONE")
    receiver.wait(2)
    receiver.answer(200, asked)
    shell.control("/legacy/login", {"host": shell.host, "code": login, "customer": ONA, "permissions": ["NAME"]})
    arrived = shell.arrived(4)
    assert [(one.method, one.path) for one in arrived] == [("GET", "/cb/login"), ("POST", "/cb/login")] * 2
    assert [sorted(one.json) for one in arrived[1::2]] == [["id", "phone"], ["id", "name"]]
