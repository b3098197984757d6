"""The second connection to a bank resumes the first one's session; a whole call has one deadline, however the server trickles."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from dialects import identity_of
from rogue_bank import ask, http, rogue_bank, server_context, trickling

from tppkit.client import Identity, deadline
from tppkit.client.tls_sessions import MAX_SESSION_S, MAX_SESSIONS, ResumingContext
from tppkit.testpki import Pki


@pytest.fixture
def context(bank_pki_folder: Path) -> ssl.SSLContext:
    return server_context(bank_pki_folder, client_anchors=bank_pki_folder / "root.pem")


def ask_async(context: ssl.SSLContext, port: int) -> bytes:
    async def main() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        answer = await reader.read(1)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        return answer

    return asyncio.run(main())


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("asking", [ask, ask_async])
def test_the_second_connection_is_resumed_and_the_server_still_knows_the_client(asking, version, context, bank_pki):
    context.maximum_version = version
    identity = identity_of(bank_pki)
    with rogue_bank(context, http(200)) as bank:
        assert [asking(identity.tls_context, bank.port) for _ in range(3)] == [b"H"] * 3
    assert (bank.resumed, bank.shown) == ([False, True, True], [bank_pki.qwac.certificate.der] * 3)


def test_a_session_is_not_resumed_by_another_identity_or_with_another_port(context, bank_pki):
    identity, other = identity_of(bank_pki), identity_of(bank_pki)
    with rogue_bank(context, http(200)) as bank, rogue_bank(context, http(200)) as elsewhere:
        for one, port in ((identity, bank.port), (other, bank.port), (identity, elsewhere.port)):
            ask(one.tls_context, port)
    assert (bank.resumed, elsewhere.resumed) == ([False, False], [False])


def resuming(pki: Pki, now: list[float]) -> ResumingContext:
    context = ResumingContext(clock=lambda: now[0])
    context.load_verify_locations(cadata=ssl.DER_cert_to_PEM_cert(pki.root.certificate.der))
    return context


def test_a_session_is_resumed_within_the_hour_and_only_so_many_are_kept(bank_pki_folder, bank_pki):
    now = [0.0]
    context = resuming(bank_pki, now)
    with rogue_bank(server_context(bank_pki_folder), http(200)) as bank:
        for now[0] in (0.0, 0.6 * MAX_SESSION_S, 1.2 * MAX_SESSION_S, 1.8 * MAX_SESSION_S):
            ask(context, bank.port)
    assert bank.resumed == [False, True, False, True]
    context = resuming(bank_pki, [0.0])
    with rogue_bank(server_context(bank_pki_folder), http(200)) as bank:
        ask(context, bank.port)
    session = context._find(("localhost", bank.port))
    for number in range(2 * MAX_SESSIONS):
        context.remember((f"host{number}", 443), session, resumed=False)
    assert len(context._sessions) == MAX_SESSIONS


def test_a_session_is_forgotten_when_the_server_refuses_the_connection(context, bank_pki_folder, bank_pki):
    client = resuming(bank_pki, [0.0])
    with rogue_bank(server_context(bank_pki_folder), http(200)) as open_to_all, rogue_bank(context, http(200)) as bank:
        ask(client, open_to_all.port)
        place = ("localhost", bank.port)
        client.remember(place, client._find(("localhost", open_to_all.port)), resumed=False)
        with pytest.raises(ssl.SSLError):
            ask(client, bank.port)
    assert client._find(place) is None


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


def test_a_server_that_trickles_or_reads_nothing_is_disconnected_at_the_deadline(identity, bank_pki_folder):
    with trickling(server_context(bank_pki_folder), every_s=0.05) as port, connected(identity, port) as connection:
        with deadline(30):
            connection.recv(1)
        assert connection.gettimeout() == _OWN_S  # its own again
        begun = time.monotonic()
        with deadline(0.4), pytest.raises(TimeoutError):
            read_all(connection)
        assert 0.3 < time.monotonic() - begun < 10
    with (
        trickling(server_context(bank_pki_folder), every_s=5) as port,
        connected(identity, port) as connection,
        deadline(0.4),
        pytest.raises(TimeoutError),
    ):
        write_for_ever(connection)


@pytest.mark.parametrize(("outer", "inner"), [(0.3, 60), (60, 0.3)])
def test_the_nearer_of_two_deadlines_holds(outer, inner, identity, bank_pki_folder):
    with trickling(server_context(bank_pki_folder), every_s=0.05) as port, connected(identity, port) as connection:
        begun = time.monotonic()
        with deadline(outer), deadline(inner), pytest.raises(TimeoutError):
            read_all(connection)
        assert time.monotonic() - begun < 10
