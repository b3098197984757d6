"""A whole call has one deadline, however the server trickles."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from rogue_bank import server_context, trickling

from tppkit.client import Identity
from tppkit.client.tls_deadline import deadline

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
