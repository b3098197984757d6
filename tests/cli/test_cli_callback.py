"""`tppkit callback`: sign, verify, explain, attack."""

from __future__ import annotations

import re
import socket
import subprocess
import threading

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12
from receivers import receiving

from programs import needed
from tppkit._clock import utc_now
from tppkit.callbacks import CallbackAddress, CallbackKind, CallbackReceiver, load_callback_key, verify_callback
from tppkit.callbacks.attacks import ATTACKS
from tppkit.httpsig import load_private_key
from tppkit.message import Message

pytestmark = pytest.mark.slow

URL = "https://tpp.example/cb/"
ACCESS = b'{"token":"abcdefghijklmnopqrstuvwxyz","exp":"2026-12-01 12:00:00"}'


@pytest.fixture
def signed(tppkit, certs) -> dict[str, str]:
    """The headers of a signed callback whose body is on standard input."""
    command = (
        "callback",
        "sign",
        "--key",
        certs / "callback-live.key",
        *f"--url {URL} --request-id r-1 --body -".split(),
    )
    return dict(tppkit(*command, "--json", stdin=ACCESS).json["headers"])


def test_a_key_may_be_pkcs12(tppkit, tmp_path, certs):
    key = load_private_key((certs / "callback-live.key").read_bytes())
    held = pkcs12.serialize_key_and_certificates(b"live", key, None, None, BestAvailableEncryption(b"secret"))
    (tmp_path / "live.p12").write_bytes(held)
    (tmp_path / "password").write_bytes(b"secret\n")
    sign = ("callback", "sign", "--key", "live.p12", "--url", URL, "--request-id", "r-1")
    headers = dict(tppkit(*sign, "--password-file", "password", "--body", "-", "--json", stdin=ACCESS).json["headers"])
    signed = ("--url", URL, "--request-id", "r-1", "--signature", headers["signature"], "--body", "-")
    key = certs / "callback-live.pub"
    assert tppkit("callback", "verify", *signed, "--public-key", key, stdin=ACCESS).exit_code == 0
    without = tppkit(*sign)
    assert (without.exit_code, "no password was given [pkcs12.unreadable]" in without.stderr) == (3, True)


@pytest.fixture
def parts(signed, certs) -> tuple[object, ...]:
    return (
        "--url", URL, "--request-id", signed["requestid"], "--signature", signed["signature"], "--body", "-",
        "--public-key", certs / "callback-live.pub",
    )  # fmt: skip


def test_what_is_signed_is_verified(tppkit, parts):
    shown = tppkit("callback", "verify", *parts, "--at", "2026-06-01", stdin=ACCESS).stdout
    assert shown.splitlines()[0] == "holds: POST https://tpp.example/cb/"
    verdict = tppkit(
        "callback", "verify", *parts, "--at", "2026-06-01", "--json", "--address", f"access={URL}", stdin=ACCESS
    ).json
    assert verdict == {
        "verdict": "holds", "code": None, "findings": [], "request_id": "r-1", "method": "POST", "url": URL, "address": URL,
        "key_name": "callback-live", "event": "AccessGranted", "body_bytes": len(ACCESS), "at": "2026-06-01T00:00:00Z",
    }  # fmt: skip


def test_a_changed_body_fails(tppkit, parts):
    result = tppkit("callback", "verify", *parts, "--json", stdin=ACCESS + b"\n")
    assert result.exit_code == 1
    assert (result.json["verdict"], result.json["code"]) == ("fails", "callback.signature")
    (finding,) = result.json["findings"]
    assert (finding["code"], finding["severity"]) == ("callback.signature", "error")
    assert "callback.signature" in tppkit("callback", "verify", *parts, stdin=ACCESS + b"\n").stderr


def test_the_message_about_a_request_without_an_empty_line_names_the_line(tppkit, tmp_path, certs):
    (tmp_path / "request").write_bytes(b"POST /cb/ HTTP/1.1\r\nHost: x\r\n")
    result = tppkit("callback", "verify", "request", "--address", URL, "--public-key", certs / "callback-live.pub")
    assert result.exit_code == 3
    assert "an empty line" in result.stderr.splitlines()[1]


def test_a_body_of_another_kind_fails(tppkit, parts):
    result = tppkit("callback", "verify", *parts, "--address", f"login={URL}", "--json", stdin=ACCESS)
    assert (result.exit_code, result.json["code"]) == (1, "model.invalid")


def test_the_key_that_signed_is_named(tppkit, parts, certs):
    result = tppkit(
        "callback", "verify", *parts[:-1], f"test={certs / 'callback-test.pub'}", "--public-key", f"live={certs / 'callback-live.pub'}",
        "--json", stdin=ACCESS,
    )  # fmt: skip
    assert result.json["key_name"] == "live"


def test_a_raw_request_is_verified(tppkit, tmp_path, signed, certs):
    uuid = "a1" * 12
    sign = ("callback", "sign", "--key", certs / "callback-live.key", "--url", URL + uuid, "--method", "GET")
    headers = "\r\n".join(tppkit(*sign).stdout.split("\n")[:2])
    (tmp_path / "request").write_bytes(f"GET /cb/{uuid} HTTP/1.1\r\nHost: x\r\n{headers}\r\n\r\n".encode())
    command = ("callback", "verify", "request", "--public-key", certs / "callback-live.pub")
    assert tppkit(*command, "--address", "login=https://tpp.example/cb/{token}").exit_code == 0
    assert tppkit(*command).exit_code == 2


@pytest.mark.parametrize("word", ["ž", "Å", "à", "日"])
def test_a_target_of_raw_utf8_is_verified_unchanged(tppkit, tmp_path, certs, word):
    address = f"https://tpp.example/cb/{word}/"
    headers = tppkit(
        "callback", "sign", "--key", certs / "callback-live.key", "--url", address, "--body", "-", stdin=ACCESS
    )
    lines = headers.stdout.replace("\n", "\r\n").encode()
    start = f"POST /cb/{word}/ HTTP/1.1\r\nContent-Length: {len(ACCESS)}\r\n".encode()
    (tmp_path / "request").write_bytes(start + lines + b"\r\n" + ACCESS)
    options = ("request", "--public-key", certs / "callback-live.pub", "--address", f"access={address}")
    assert [tppkit("callback", name, *options).exit_code for name in ("verify", "explain")] == [0, 0]


def test_the_likely_cause_is_printed(tppkit, parts):
    result = tppkit("callback", "explain", *parts, stdin=ACCESS + b"\n")
    assert result.exit_code == 1
    assert "callback-cause.body-changed" in result.stdout
    assert f"r-1POST{URL}" in result.stdout
    assert "callback explain" not in result.stdout
    verdict = tppkit("callback", "explain", *parts, "--json", stdin=ACCESS + b"\n").json
    assert [finding["code"] for finding in verdict["findings"]] == ["callback.signature", "callback-cause.body-changed"]
    assert verdict["tried"][0]["url"] == URL
    assert verdict["keys"] == {"callback-live": "counts"}


def test_a_callback_that_holds_has_no_cause(tppkit, parts):
    result = tppkit("callback", "explain", *parts, "--json", stdin=ACCESS)
    assert (result.exit_code, result.json["verdict"], result.json["findings"]) == (0, "holds", [])


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("verify", "--public-key", "{pub}"), 2),
        (("verify", "{pub}", "--url", URL, "--public-key", "{pub}"), 2),
        (("explain", "{pub}", "--request-id", "r-1", "--address", URL, "--public-key", "{pub}"), 2),
        (("sign", "--url", URL, "--key", "{key}", "--request-id", "a\nb"), 2),
        (("sign", "--url", URL, "--key", "{key}", "--request-id", " a"), 2),
        (("sign", "--url", URL, "--key", "{key}", "--request-id", ""), 2),
        (("verify", "--url", "http://tpp.example/", "--public-key", "{pub}"), 2),
        (("verify", "--url", URL, "--public-key", "absent.pub"), 3),
        (("verify", "--url", URL, "--public-key", "{key}"), 3),
        (("verify", "--url", URL, "--public-key", "{damaged}"), 3),
        (("sign", "--url", URL, "--key", "absent.key"), 3),
        (("sign", "--url", URL, "--key", "{damaged}"), 3),
        (("sign", "--url", URL, "--key", "{rsa}"), 2),
        (("sign", "--url", URL, "--key", "-", "--body", "-"), 2),
        (("attack", "http://127.0.0.1:9/", "--key", "-", "--body", "-"), 2),
        (("verify", "-", "--address", URL, "--public-key", "-"), 2),
        (("verify", "--url", URL, "--body", "-", "--public-key", "live=-"), 2),
        (("explain", "--url", URL, "--public-key", "-", "--public-key", "-"), 2),
        (("send", "--url", "http://127.0.0.1:9/", "--key", "{key}", "--kind", "access"), 3),
        (("send", "--url", "https://127.0.0.1:9/", "--key", "{key}", "--kind", "access", "--ca", "absent.pem"), 3),
        (("send", "--url", "http://bank.example/", "--key", "{key}", "--kind", "access"), 2),
        (("send", "--url", "http://127.0.0.1:9/", "--key", "{key}", "--kind", "access", "--scan"), 2),
        (("send", "--url", "http://127.0.0.1:9/", "--key", "{key}", "--kind", "access", "--request-id", "a:b"), 2),
        (("send", "--url", "http://127.0.0.1:9/{{token}}", "--key", "{key}", "--kind", "payment"), 2),
        (("attack", "http://bank.example/", "--key", "{key}"), 2),
        (("attack", "http://127.0.0.1:9/", "--key", "{key}"), 3),
        (("attack", "http://127.0.0.1:9/", "--key", "{key}", "--signed-url", "https://tpp.example/cb/{{token}}"), 2),
    ],
)
def test_a_command_that_cannot_run_has_an_exit_code(tppkit, certs, tmp_path, arguments, code):
    if "{rsa}" in arguments:
        subprocess.run(
            [needed("openssl"), "genrsa", "-out", tmp_path / "rsa.key", "2048"], check=True, capture_output=True
        )
    damaged = tmp_path / "damaged.pem"
    damaged.write_text("-----BEGIN PRIVATE KEY-----\nMDAw\n-----END PRIVATE KEY-----\n")
    names = {
        "damaged": damaged,
        "pub": certs / "callback-live.pub",
        "key": certs / "callback-live.key",
        "rsa": tmp_path / "rsa.key",
    }
    assert tppkit("callback", *[text.format(**names) for text in arguments]).exit_code == code


def test_keys_are_read_from_standard_input(tppkit, certs):
    private, public = ((certs / f"callback-live.{kind}").read_bytes() for kind in ("key", "pub"))
    signed = tppkit(
        "callback", "sign", "--key", "-", "--url", URL, "--request-id", "r-1", "--method", "GET", "--json", stdin=private
    ).json  # fmt: skip
    headers = dict(signed["headers"])
    request = ("--url", URL, "--request-id", "r-1", "--method", "GET", "--signature", headers["signature"])
    verified = tppkit("callback", "verify", *request, "--public-key", "live=-", "--json", stdin=public).json
    assert (verified["verdict"], verified["key_name"]) == ("holds", "live")


def test_our_own_receiver_passes_every_attack(tppkit, certs):
    key = load_callback_key(certs / "callback-live.pub", name="live")
    with receiving(CallbackReceiver([CallbackAddress(URL, CallbackKind.ACCESS)], keys=[key])) as port:
        options = ("--key", certs / "callback-live.key", "--signed-url", URL)
        command = ("callback", "attack", f"http://127.0.0.1:{port}/cb/", *options)
        text, as_json = tppkit(*command), tppkit(*command, "--json")
    assert text.exit_code == 0, text.stdout
    assert "FAIL" not in text.stdout
    assert as_json.json["verdict"] == "holds"
    assert len(as_json.json["attacks"]) == len(text.stdout.splitlines()) - 1


@pytest.mark.parametrize(
    ("place", "signed"),
    [
        ("HTTP://LocalHost:{port}/cb", "https://localhost:{port}/cb"),
        ("http://127.0.0.1:{port}?x=1", "https://127.0.0.1:{port}/?x=1"),
        ("http://127.0.0.1:{port}", "https://127.0.0.1:{port}/"),
    ],
)
def test_the_address_that_is_signed_is_the_place_with_https(tppkit, certs, place, signed):
    seen: list[Message] = []
    with receiving(None, seen) as port:
        result = tppkit("callback", "attack", place.format(port=port), "--key", certs / "callback-live.key", "--json")
        address = CallbackAddress(signed.format(port=port), CallbackKind.OTHER)
    assert result.json["attacks"][0]["passed"]
    receiver = CallbackReceiver([address], keys=[load_callback_key(certs / "callback-live.pub", name="live")])
    assert verify_callback(seen[0], at=utc_now(), receiver=receiver).url == address.url


def test_a_receiver_that_accepts_everything_fails(tppkit, certs):
    with receiving(None) as port:
        url = f"http://localhost:{port}/cb/"
        result = tppkit("callback", "attack", url, "--key", certs / "callback-live.key", "--json")
    assert result.exit_code == 1
    assert result.json["code"] == "attack.failed"
    failed = {row["name"] for row in result.json["attacks"] if not row["passed"]}
    expected = "forged wrong-key unsigned other-host other-path other-query forwarded-host requestid-reused"
    assert {*expected.split()} <= failed
    assert not {"good", "replayed", "malleated"} & failed


def test_a_receiver_that_stops_during_the_attacks_fails(tppkit, certs):
    def answer_once() -> None:
        connection, _ = server.accept()
        with server, connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    server = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{server.getsockname()[1]}/cb/"
    thread = threading.Thread(target=answer_once)
    thread.start()
    result = tppkit("callback", "attack", url, "--key", certs / "callback-live.key", "--json")
    thread.join()
    assert (result.exit_code, result.json["code"]) == (1, "attack.failed")
    assert [row["name"] for row in result.json["attacks"] if row["passed"]] == ["good"]


def test_a_receiver_that_refuses_everything_is_not_judged(tppkit, certs):
    receiver = CallbackReceiver(
        [CallbackAddress("https://tpp.example/elsewhere/", CallbackKind.ACCESS)],
        keys=[load_callback_key(certs / "callback-live.pub", name="live")],
    )
    seen: list[Message] = []
    with receiving(receiver, seen) as port:
        command = ("callback", "attack", f"http://127.0.0.1:{port}/cb/", "--key", certs / "callback-live.key")
        text, as_json = tppkit(*command), tppkit(*command, "--json")
    assert (text.exit_code, as_json.exit_code, len(seen)) == (1, 1, 2)
    assert (as_json.json["verdict"], as_json.json["code"]) == ("fails", "attack.not-judged")
    assert [row["passed"] for row in as_json.json["attacks"]] == [False] + [None] * (len(ATTACKS) - 1)
    lines = text.stdout.splitlines()
    assert lines[0].startswith("FAIL  good")
    assert lines[-1] == f"0 of {len(ATTACKS)} passed"
    assert all("not judged" in line for line in lines[1:-1])


@pytest.mark.parametrize(
    ("path", "targets", "beside"),
    [
        ("/hook/x?y=1", "/hook/x?y=1", ["/hook/not-ours-…", "/hook/x?y=1&not-ours=…"]),
        ("", "/cb/", ["/cb/?not-ours=…", "/cb/not-ours-…"]),
    ],
)
def test_everything_goes_to_the_path_of_the_url_or_beside_it(tppkit, certs, path, targets, beside):
    seen: list[Message] = []
    with receiving(None, seen) as port:
        url = f"http://127.0.0.1:{port}{path}"
        tppkit("callback", "attack", url, "--key", certs / "callback-live.key", "--signed-url", URL)
    assert len(seen) > 40
    encoded = "/" + targets[1:].replace("/", "%2F")
    found = {re.sub(r"(?<=not-ours.)[0-9a-f]+$", "…", call.target) for call in seen}
    assert found == {targets, encoded, *beside, "https://stranger.example/cb/"}
    hosts = [
        value for call in seen for name, value in call.headers if name == "Host" and not value.endswith(f":{port}")
    ]
    assert hosts == ["stranger.example"]
