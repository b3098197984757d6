"""A connection over mutual TLS: HTTP over it, hostile and unlucky peers, and its end."""

from __future__ import annotations

import hashlib
import random
import socket
import ssl
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice

import httpx
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from tls_server import (
    GET,
    LAST_GET,
    Running,
    eventually,
    log,
    parties,
    pems,
    read_all,
    read_answer,
    serving,
    soft,
    soft_server,
)

from tppkit.sandbox.http1 import BoundedHttp
from tppkit.sandbox.tls import ServerTls

__all__ = ["log", "parties", "soft", "soft_server"]

pytestmark = [pytest.mark.filterwarnings("error"), pytest.mark.slow]


def key_update_requests(secret: bytes) -> Iterator[bytes]:
    """Records of a client that asks for new keys again and again (RFC 8446 sections 4.6.3, 5.2, 7.2, 7.3)."""

    def expand(label: bytes, length: int) -> bytes:
        info = length.to_bytes(2, "big") + bytes([len(label) + 6]) + b"tls13 " + label + b"\x00"
        return HKDFExpand(hashes.SHA384(), length, info).derive(secret)

    header = b"\x17\x03\x03\x00\x16"
    while True:
        key_update = b"\x18\x00\x00\x01\x01" + b"\x16"  # update_requested, content type handshake
        yield header + AESGCM(expand(b"key", 32)).encrypt(expand(b"iv", 12), key_update, header)
        secret = expand(b"traffic upd", 48)


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def test_two_requests_share_a_connection_but_not_their_scope(parties, soft):
    with soft.tls_connect(parties.client("good")) as connection:
        for _ in range(2):
            connection.sendall(GET)
            assert b"200 OK" in read_answer(connection)
        first, second = soft.bank.scopes
    assert first["client"] == second["client"]
    assert first["extensions"] == second["extensions"]
    assert first["extensions"]["tls"] == {"client_cert_chain": pems(parties.clients["good"]), "client_cert_error": None}


def test_answers_are_not_held_back_for_acknowledgements(parties, soft):
    with soft.tls_connect(parties.client()) as connection:
        connection.sendall(GET)
        read_answer(connection)
        (served,) = soft.server.server_state.connections
        accepted = served.transport.get_extra_info("socket")  # type: ignore[union-attr]
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_pipelined_requests_are_all_answered(parties, soft):
    answers = soft.ask(parties.client(), GET * 30 + LAST_GET)
    assert answers.count(b"HTTP/1.1 200 OK") == 31
    assert len(soft.bank.scopes) == 31


def test_large_bodies_arrive_whole_in_both_directions(parties, soft):
    body = random.Random(1).randbytes(2_000_000)
    with httpx.Client(verify=parties.client("good"), base_url=f"https://127.0.0.1:{soft.port}") as client:
        for _ in range(2):
            assert client.get("/large").content == bytes(5_000_000)
            assert client.post("/", content=body).text == hashlib.sha256(body).hexdigest()


def test_bytes_that_trickle_in_one_by_one_are_put_together(parties, soft):
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = parties.client("good").wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with soft.connect() as raw:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def trickle() -> None:
            for byte in outgoing.read():
                raw.sendall(bytes([byte]))

        while True:
            with suppress(ssl.SSLWantReadError):
                tls.do_handshake()
                break
            trickle()
            incoming.write(raw.recv(65536))
        tls.write(LAST_GET)
        trickle()
        assert len(read_all(raw)) > 150
    assert len(soft.bank.scopes) == 1


def test_both_ends_close_tls(parties, soft):
    connection = soft.tls_connect(parties.client())
    connection.sendall(LAST_GET)
    assert b"200 OK" in read_all(connection)  # an end without close_notify would raise
    connection.unwrap().close()


def test_a_client_that_closes_tls_is_disconnected(parties, soft):
    connection = soft.tls_connect(parties.client())
    connection.sendall(GET)
    read_answer(connection)
    connection.unwrap().close()
    eventually(lambda: soft.live == 0)


@contextmanager
def narrow(
    tls: ServerTls, context: ssl.SSLContext, *, sending: int = 0, receiving: int = 0
) -> Iterator[tuple[Running, ssl.SSLSocket]]:
    """A server with small buffers, and a client with buffers of these sizes."""
    raw = socket.socket()
    for option, size in ((socket.SO_SNDBUF, sending), (socket.SO_RCVBUF, receiving)):
        if size:
            raw.setsockopt(socket.SOL_SOCKET, option, size)
    with serving(tls, socket_buffer=16_384) as running:
        raw.connect(("127.0.0.1", running.port))
        with context.wrap_socket(raw, server_hostname="127.0.0.1") as connection:
            yield running, connection


def test_the_application_waits_for_a_client_that_does_not_read(parties, log):
    with narrow(parties.tls(handshake_timeout_s=1), parties.client(), receiving=16_384) as (running, connection):
        connection.sendall(b"GET /endless HTTP/1.1\r\nhost: sandbox\r\n\r\n")
        eventually(lambda: running.bank.disconnects == 1)
    assert 0 < running.bank.bytes_sent < 1_000_000
    (line,) = log()
    assert "unread" in line


def test_a_client_that_requests_new_keys_but_does_not_read_is_disconnected(parties, log):
    context, keys = parties.client(version=ssl.TLSVersion.TLSv1_3), parties.folder / "keys"
    context.keylog_filename = str(keys)
    with narrow(parties.tls(), context, receiving=4096) as (running, connection):
        assert connection.cipher() == ("TLS_AES_256_GCM_SHA384", "TLSv1.3", 256)
        secret = bytes.fromhex(keys.read_text().split("CLIENT_TRAFFIC_SECRET_0 ")[1].split()[1])
        with socket.socket(fileno=socket.dup(connection.fileno())) as wire, suppress(ConnectionError):
            wire.settimeout(5)
            for request in islice(key_update_requests(secret), 20_000):
                wire.sendall(request)
        eventually(lambda: running.live == 0)
    (line,) = log()
    assert line.endswith("asks for more than it reads")


def test_a_slow_reader_gets_everything(parties, log):
    received = 0
    with narrow(parties.tls(handshake_timeout_s=1), parties.client(), receiving=16_384) as (_, connection):
        connection.sendall(b"GET /large HTTP/1.1\r\nhost: sandbox\r\nconnection: close\r\n\r\n")
        while part := connection.recv(16_384):
            received += len(part)
            time.sleep(0.005)
    assert received > 5_000_000
    assert log() == []


def test_a_client_that_read_everything_may_then_pause(parties, log):
    tls, context = parties.tls(handshake_timeout_s=1), parties.client()
    with serving(tls, socket_buffer=65_536) as running, running.tls_connect(context) as connection:
        connection.sendall(b"GET /large HTTP/1.1\r\nhost: sandbox\r\n\r\n")
        assert len(read_answer(connection)) > 5_000_000
        time.sleep(1.5)
        connection.sendall(GET)
        assert b"200 OK" in read_answer(connection)
    assert log() == []


def test_the_client_waits_for_an_application_that_does_not_read(parties):
    sent = 0
    with narrow(parties.tls(), parties.client(), sending=16_384) as (running, connection):
        connection.sendall(b"POST /deaf HTTP/1.1\r\nhost: sandbox\r\ncontent-length: 9000000\r\n\r\n")
        connection.settimeout(1)
        with suppress(TimeoutError):
            while sent < 9_000_000:
                sent += connection.send(bytes(10_000))
        running.bank.go_on.set()
        assert 65_536 < sent < 1_000_000


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc"], ids=["none", "half"])
def test_an_unfinished_handshake_times_out(parties, log, sent):
    with serving(parties.tls(handshake_timeout_s=0.2)) as running, running.connect() as connection:
        connection.sendall(sent)
        assert connection.recv(1) == b""
        eventually(lambda: running.live == 0)
    (line,) = log()
    assert line.endswith("handshake timeout")


def test_the_timeout_is_over_after_the_handshake(parties):
    with serving(parties.tls(handshake_timeout_s=1)) as running, running.tls_connect(parties.client()) as connection:
        time.sleep(1.2)
        connection.sendall(GET)
        assert b"200 OK" in read_answer(connection)


def test_a_client_that_leaves_early_is_one_log_line(soft, log):
    soft.connect().close()
    eventually(log)
    eventually(lambda: soft.live == 0)
    (line,) = log()
    assert line.endswith("closed by the client during the handshake")


def test_plain_http_is_rejected(parties, soft, log):
    with soft.connect() as connection:
        connection.sendall(GET)
        assert b"HTTP" not in read_all(connection)
    assert b"200 OK" in soft.ask(parties.client())
    (line,) = log()
    assert line.endswith("http request")


def test_garbage_does_no_harm(parties, soft):
    chance = random.Random(20)
    hello = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        parties.client().wrap_bio(ssl.MemoryBIO(), hello, server_hostname="127.0.0.1").do_handshake()
    valid = hello.read()
    for turn in range(200):
        noise = bytearray(valid if turn % 2 else chance.randbytes(chance.randint(1, 2000)))
        for _ in range(turn % 7):
            noise[chance.randrange(len(noise))] = chance.randrange(256)
        with soft.connect() as connection, suppress(ConnectionError):
            connection.sendall(noise)
            if turn % 3:
                connection.shutdown(socket.SHUT_WR)
    eventually(lambda: soft.live == 0)
    assert b"200 OK" in soft.ask(parties.client("good"))


def test_garbage_after_the_handshake_ends_the_connection(parties, soft, log):
    with soft.tls_connect(parties.client()) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nhost: sandbox\r\ncontent-length: 9\r\n\r\n")
        eventually(lambda: soft.bank.scopes)
        with socket.socket(fileno=socket.dup(connection.fileno())) as raw:
            raw.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
            with pytest.raises(ssl.SSLError, match="BAD_RECORD_MAC"):
                connection.recv(1)
    eventually(lambda: soft.bank.disconnects == 1)
    (line,) = log()
    assert "bad record" in line


def test_a_record_longer_than_allowed_ends_the_connection(soft, log):
    with soft.connect() as connection:
        connection.sendall(b"\x16\x03\x01\xff\xff" + bytes(300_000))
        assert read_all(connection)[:1] == b"\x15"  # an alert
    eventually(lambda: soft.live == 0)
    assert len(log()) == 1


def test_a_malformed_chunk_after_the_answer_began_leaves_no_traceback(parties, soft):
    head = b"POST /early HTTP/1.1\r\nhost: sandbox\r\ntransfer-encoding: chunked\r\n\r\n"
    with soft.tls_connect(parties.client()) as connection:
        connection.sendall(head)
        assert b"200 OK" in connection.recv(1000)
        connection.sendall(b"ZZZ\r\n")
        with suppress(OSError):
            read_all(connection)
        eventually(lambda: soft.live == 0)


@pytest.mark.parametrize("moment", ["connect", "hello", "handshake", "idle", "upload", "answer"])
def test_a_reset_leaves_nothing_behind(parties, soft, moment):
    if moment in ("connect", "hello"):
        connection = soft.connect()
        connection.sendall(b"\x16\x03\x01\x02\x00\x01" if moment == "hello" else b"")
    else:
        connection = soft.tls_connect(parties.client("good"))
    if moment == "idle":
        connection.sendall(GET)
        read_answer(connection)
    elif moment == "upload":
        connection.sendall(b"POST / HTTP/1.1\r\nhost: sandbox\r\ncontent-length: 900000\r\n\r\n")
        connection.sendall(bytes(90_000))
        eventually(lambda: soft.bank.scopes)
    elif moment == "answer":
        connection.sendall(b"GET /endless HTTP/1.1\r\nhost: sandbox\r\n\r\n")
        connection.recv(1000)
    eventually(lambda: soft.live == 1)
    reset(connection)
    eventually(lambda: soft.live == 0)
    eventually(lambda: soft.objects == [], within_s=4)  # sooner than uvicorn's keep-alive timer of 5 s
    assert b"200 OK" in soft.ask(parties.client("good"))


def test_a_client_that_stops_sending_disconnects_the_application(parties, soft):
    with soft.tls_connect(parties.client("good")) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nhost: sandbox\r\ncontent-length: 9\r\n\r\n")
        eventually(lambda: soft.bank.scopes)
        connection.shutdown(socket.SHUT_WR)  # TCP end without close_notify
        eventually(lambda: soft.bank.disconnects == 1 and soft.live == 0)


class _AtMostTwo(BoundedHttp):
    max_connections = 2


def test_a_connection_beyond_the_limit_replaces_the_one_that_is_idle_the_longest(parties):
    with ExitStack() as opened:
        running = opened.enter_context(serving(parties.tls(), _AtMostTwo))
        idle, used = (opened.enter_context(running.tls_connect(parties.client())) for _ in range(2))
        for each in (idle, used):
            each.sendall(GET)
            read_answer(each)
        assert b"200 OK" in running.ask(parties.client())
        with suppress(OSError):
            assert idle.recv(1) == b""
        used.sendall(GET)
        assert b"200 OK" in read_answer(used)
        for _ in range(3):  # handshakes that are not finished are idle, too
            opened.enter_context(running.connect())
        assert b"200 OK" in running.ask(parties.client())


def test_a_connection_beyond_the_limit_is_closed_if_all_are_in_use(parties, log):
    with ExitStack() as opened:
        running = opened.enter_context(serving(parties.tls(), _AtMostTwo))
        busy = [opened.enter_context(running.tls_connect(parties.client())) for _ in range(2)]
        for each in busy:
            each.sendall(b"GET /slow HTTP/1.1\r\nhost: sandbox\r\n\r\n")
        eventually(lambda: len(running.bank.scopes) == 2)
        with running.connect() as third, suppress(ConnectionError):
            assert third.recv(1) == b""
        assert all(b"at last" in read_answer(each) for each in busy)
    assert log()[0].endswith("too many connections")


def test_the_server_stops_quickly_with_connections_in_every_state(parties):
    with serving(parties.tls()) as running:
        silent, fresh = running.connect(), running.tls_connect(parties.client())
        idle, refused = running.tls_connect(parties.client("good")), running.connect()
        idle.sendall(GET)
        read_answer(idle)
        refused.sendall(GET)
        eventually(lambda: running.live == 4)
        assert running.stop() < 8  # sooner than the handshake's limit of 10 s
        for connection in (silent, fresh, idle, refused):
            connection.close()


def test_a_request_in_flight_is_answered_before_the_server_stops(parties):
    with serving(parties.tls()) as running, running.tls_connect(parties.client("good")) as connection:
        connection.sendall(b"GET /slow HTTP/1.1\r\nhost: sandbox\r\n\r\n")
        eventually(lambda: running.bank.scopes)
        running.stop()
        assert b"at last" in read_all(connection)
