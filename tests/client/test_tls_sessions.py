"""The second connection to a bank resumes the first one's session; a whole call has one deadline, however the server trickles."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from rogue_bank import server_context, trickling

from tppkit.client import Identity, deadline
from tppkit.client.tls_sessions import MAX_SESSION_S, MAX_SESSIONS, ResumingContext
from tppkit.testpki import Pki

VERSIONS = pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])


class Server:
    """Answers `x` to every line, asks for a certificate, and notes whether each connection was resumed."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.context = context
        self.resumed: list[bool] = []
        self.shown: list[bytes | None] = []

    def serve(self) -> None:
        with suppress(OSError):
            while True:
                plain, _ = self.listener.accept()
                plain.settimeout(10)
                with suppress(OSError), self.context.wrap_socket(plain, server_side=True) as connection:
                    connection.recv(1)
                    self.resumed.append(bool(connection.session_reused))
                    self.shown.append(connection.getpeercert(binary_form=True))
                    connection.sendall(b"x")
                    connection.recv(1)


@contextmanager
def serving(context: ssl.SSLContext) -> Iterator[Server]:
    server = Server(context)
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        yield server
    finally:
        server.listener.shutdown(socket.SHUT_RDWR)
        thread.join(20)
        server.listener.close()


@pytest.fixture
def context(bank_pki_folder: Path) -> ssl.SSLContext:
    return server_context(bank_pki_folder, client_anchors=bank_pki_folder / "root.pem")


def identity_of(pki: Pki) -> Identity:
    return Identity(pki.qwac.certificate, pki.qwac.key, chain=pki.qwac.chain, server_anchors=[pki.root.certificate])


def call(context: ssl.SSLContext, port: int) -> bytes:
    plain = socket.create_connection(("127.0.0.1", port), timeout=10)
    with context.wrap_socket(plain, server_hostname="localhost") as connection:
        connection.sendall(b"?")
        return connection.recv(1)


async def call_async(context: ssl.SSLContext, port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")
    writer.write(b"?")
    answer = await reader.read(1)
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return answer


@VERSIONS
def test_the_second_connection_is_resumed(version: ssl.TLSVersion, context: ssl.SSLContext, bank_pki: Pki) -> None:
    context.maximum_version = version
    identity = identity_of(bank_pki)
    with serving(context) as server:
        assert [call(identity.tls_context, server.port) for _ in range(3)] == [b"x"] * 3
    assert server.resumed == [False, True, True]


@VERSIONS
def test_the_second_asynchronous_connection_is_resumed(
    version: ssl.TLSVersion, context: ssl.SSLContext, bank_pki: Pki
) -> None:
    context.maximum_version = version
    identity = identity_of(bank_pki)

    async def main(port: int) -> list[bytes]:
        return [await call_async(identity.tls_context, port) for _ in range(3)]

    with serving(context) as server:
        assert asyncio.run(main(server.port)) == [b"x"] * 3
    assert server.resumed == [False, True, True]


def test_a_server_still_knows_who_we_are_when_resumed(context: ssl.SSLContext, bank_pki: Pki) -> None:
    identity = identity_of(bank_pki)
    with serving(context) as server:
        for _ in range(2):
            call(identity.tls_context, server.port)
    assert server.shown == [bank_pki.qwac.certificate.der] * 2


def test_another_identity_does_not_resume_the_session(context: ssl.SSLContext, bank_pki: Pki) -> None:
    with serving(context) as server:
        for identity in (identity_of(bank_pki), identity_of(bank_pki)):
            call(identity.tls_context, server.port)
    assert server.resumed == [False, False]


def test_a_session_is_not_resumed_with_another_port(context: ssl.SSLContext, bank_pki: Pki) -> None:
    identity = identity_of(bank_pki)
    with serving(context) as one, serving(context) as other:
        call(identity.tls_context, one.port)
        call(identity.tls_context, other.port)
    assert other.resumed == [False]


def resuming(pki: Pki, now: list[float]) -> ResumingContext:
    context = ResumingContext(clock=lambda: now[0])
    context.load_verify_locations(cadata=ssl.DER_cert_to_PEM_cert(pki.root.certificate.der))
    return context


def test_a_bank_shows_its_certificate_again_within_the_hour(bank_pki_folder: Path, bank_pki: Pki) -> None:
    now = [0.0]
    context = resuming(bank_pki, now)
    with serving(server_context(bank_pki_folder)) as server:
        for now[0] in (0.0, 0.6 * MAX_SESSION_S, 1.2 * MAX_SESSION_S, 1.8 * MAX_SESSION_S):
            call(context, server.port)
    assert server.resumed == [False, True, False, True]


def test_a_session_is_forgotten_when_the_server_refuses_the_connection(bank_pki_folder: Path, bank_pki: Pki) -> None:
    context = resuming(bank_pki, [0.0])
    asking = server_context(bank_pki_folder, client_anchors=bank_pki_folder / "root.pem")
    with serving(server_context(bank_pki_folder)) as open_to_all, serving(asking) as server:
        call(context, open_to_all.port)
        place = ("localhost", server.port)
        context.remember(place, context._find(("localhost", open_to_all.port)), resumed=False)
        with pytest.raises(ssl.SSLError):
            call(context, server.port)
    assert context._find(place) is None


def test_only_so_many_sessions_are_kept(bank_pki_folder: Path, bank_pki: Pki) -> None:
    context = resuming(bank_pki, [0.0])
    with serving(server_context(bank_pki_folder)) as server:
        call(context, server.port)
    session = context._find(("localhost", server.port))
    for number in range(2 * MAX_SESSIONS):
        context.remember((f"host{number}", 443), session, resumed=False)
    assert len(context._sessions) == MAX_SESSIONS


_OWN_S = 60.0  # a slow machine shakes hands within it


@contextmanager
def connected(identity: Identity, port: int) -> Iterator[ssl.SSLSocket]:
    plain = socket.create_connection(("127.0.0.1", port), timeout=_OWN_S)
    with identity.tls_context.wrap_socket(plain, server_hostname="localhost") as connection:
        yield connection


def read_all(connection: ssl.SSLSocket) -> None:
    while connection.recv(1):
        pass


def write_for_ever(connection: ssl.SSLSocket) -> None:
    while True:
        connection.send(bytes(65_536))


def test_a_server_that_trickles_is_left_at_the_deadline(identity: Identity, bank_pki_folder: Path) -> None:
    with trickling(server_context(bank_pki_folder), every_s=0.05) as port, connected(identity, port) as connection:
        begun = time.monotonic()
        with deadline(0.4), pytest.raises(TimeoutError):
            read_all(connection)
        assert 0.3 < time.monotonic() - begun < 10


def test_a_server_that_reads_nothing_is_left_at_the_deadline(identity: Identity, bank_pki_folder: Path) -> None:
    with (
        trickling(server_context(bank_pki_folder), every_s=5) as port,
        connected(identity, port) as connection,
        deadline(0.4),
        pytest.raises(TimeoutError),
    ):
        write_for_ever(connection)


def test_a_connection_has_its_own_timeout_again_afterwards(identity: Identity, bank_pki_folder: Path) -> None:
    with trickling(server_context(bank_pki_folder), every_s=0.05) as port, connected(identity, port) as connection:
        with deadline(30):
            connection.recv(1)
        assert connection.gettimeout() == _OWN_S
        assert connection.recv(1) == b"."


@pytest.mark.parametrize(("outer", "inner"), [(0.3, 60), (60, 0.3)])
def test_the_nearer_of_two_deadlines_holds(
    outer: float, inner: float, identity: Identity, bank_pki_folder: Path
) -> None:
    with trickling(server_context(bank_pki_folder), every_s=0.05) as port, connected(identity, port) as connection:
        begun = time.monotonic()
        with deadline(outer), deadline(inner), pytest.raises(TimeoutError):
            read_all(connection)
        assert time.monotonic() - begun < 10
