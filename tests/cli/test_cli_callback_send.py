"""`tppkit callback send`: a signed sample to a receiver, over HTTP and HTTPS."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import suppress

import pytest
from receivers import receiving

from refusals import refused
from tppkit._clock import utc_now
from tppkit.callbacks import CallbackAddress, CallbackKind, CallbackReceiver, load_callback_key, verify_callback
from tppkit.cli import callback_send
from tppkit.cli.callback_send import require_target
from tppkit.errors import ConfigurationError

UUID = "0123456789abcdefghij"
KINDS = [
    ("/cb/", "access", (), "AccessGranted"), (f"/cb/{UUID}", "payment", (), "Transaction"),
    (f"/login/{UUID}", "login", (), "LoginConfirmed"), (f"/login/{UUID}", "login", ("--scan",), "NoneType"),
]  # fmt: skip


@pytest.fixture
def receiver(certs) -> CallbackReceiver:
    addresses = [
        CallbackAddress("https://tpp.example/cb/", CallbackKind.ACCESS),
        CallbackAddress("https://tpp.example/cb/{token}", CallbackKind.PAYMENT),
        CallbackAddress("https://tpp.example/login/{token}", CallbackKind.LOGIN),
    ]
    return CallbackReceiver(addresses, keys=[load_callback_key(certs / "callback-live.pub", name="live")])


@pytest.mark.parametrize(("path", "kind", "more", "event"), KINDS)
def test_a_sample_of_each_kind_is_accepted(tppkit, certs, receiver, path, kind, more, event):
    seen = []
    with receiving(receiver, seen) as port:
        sent = tppkit(
            "callback", "send", "--url", f"http://127.0.0.1:{port}", "--signed-url", f"https://tpp.example{path}",
            "--key", certs / "callback-live.key", "--kind", kind, *more, "--json",
        )  # fmt: skip
    assert (sent.exit_code, sent.json["status"]) == (0, 200)
    assert type(verify_callback(seen[0], at=utc_now(), receiver=receiver).event).__name__ == event


def test_a_sample_that_is_refused_is_exit_1_and_the_answer_is_printed(tppkit, certs, receiver):
    with receiving(receiver) as port:
        url = f"http://127.0.0.1:{port}/cb/"
        sent = tppkit("callback", "send", "--url", url, "--key", certs / "callback-live.key", "--kind", "access")
    assert (sent.exit_code, sent.stdout) == (1, "answered 400\n")  # it was signed for https://127.0.0.1:PORT/cb/


def test_a_given_body_and_requestid_are_sent(tppkit, certs):
    seen = []
    with receiving(None, seen) as port:
        tppkit(
            "callback", "send", "--url", f"http://127.0.0.1:{port}/cb/", "--key", certs / "callback-live.key",
            "--kind", "access", "--body", "-", "--request-id", "r-7", stdin=b'{"a":1}',
        )  # fmt: skip
    assert (seen[0].body, dict(seen[0].headers)["requestid"]) == (b'{"a":1}', "r-7")


def test_the_receivers_certificate_is_verified(tppkit, certs):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certs / "server-chain.pem", certs / "server.key")
    seen = []
    with receiving(None, seen, tls=context) as port:
        send = ("callback", "send", "--key", certs / "callback-live.key", "--kind", "access", "--url")
        of_root = tppkit(*send, f"https://localhost:{port}/cb/", "--ca", certs / "root.pem")
        assert (of_root.exit_code, of_root.stdout, len(seen)) == (0, "answered 200\n", 1)
        for refused in (
            tppkit(*send, f"https://localhost:{port}/cb/"),
            tppkit(*send, f"https://localhost:{port}/cb/", "--ca", certs / "qseal.pem"),
        ):
            assert (refused.exit_code, refused.stdout, len(seen)) == (3, "", 1)
            assert "certificate verify failed" in refused.stderr.lower()


@pytest.mark.parametrize("head", [b"Content-Length: 60000\r\n\r\n", b"\r\n", b"X: "])
def test_an_answer_that_never_ends_is_a_failure(tppkit, certs, monkeypatch, head):
    monkeypatch.setattr(callback_send, "TIMEOUT_S", 0.3)
    over = threading.Event()

    def answer() -> None:
        with suppress(OSError), server.accept()[0] as connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\n" + head)
            while not over.wait(0.02):
                connection.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=answer, daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        sent = tppkit(
            "callback", "send", "--url", url, "--key", certs / "callback-live.key", "--kind", "access", "--json"
        )
        over.set()
    assert (sent.exit_code, "transport.timeout" in sent.stderr) == (3, True)


def test_an_answer_before_the_end_of_the_body_is_read(tppkit, certs, tmp_path):
    def answer() -> None:
        with server.accept()[0] as connection:  # a socket that is closed with unread bytes resets the connection
            connection.recv(64)
            connection.sendall(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n")

    body = tmp_path / "body"
    body.write_bytes(b'{"a":"' + b"x" * 8_000_000 + b'"}')
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=answer, daemon=True).start()
        sent = tppkit(
            "callback", "send", "--url", f"http://127.0.0.1:{server.getsockname()[1]}", "--key", certs / "callback-live.key",
            "--kind", "access", "--body", body,
        )  # fmt: skip
    assert (sent.exit_code, sent.stdout) == (1, "answered 413\n")


@pytest.mark.parametrize(
    "url",
    ["http://example.com/", "ftp://127.0.0.1/", "http://a@127.0.0.1/", "http://127.0.0.1/ x", "http://127.0.0.1:x/", "http:///", "",
     "http://127.0.0.1/\r\nx:y", "http://[::1", "http://127.0.0.1.example.com/", "http://127.0.0.1:0/",
     "https://xn--a/", "https://xn--999999999/"],
)  # fmt: skip
def test_other_machines_are_refused(url):
    with refused(ConfigurationError, "callback.place"):
        require_target(url, "http", "https")


@pytest.mark.parametrize(
    ("url", "target"),
    [("http://localhost", ""), ("http://127.0.0.1:8000/", ""), ("http://[::1]:8000/a?b", "/a?b"), ("https://staging.example/cb/", "/cb/")],
)  # fmt: skip
def test_a_destination_is_parsed(url, target):
    assert require_target(url, "http", "https") == target
