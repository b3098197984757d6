"""Starting and stopping: ports, addresses, the ready file, and the cleanup of a failed start."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from itertools import product
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from refusals import refused
from tppkit.errors import ArchiveError, ConfigurationError
from tppkit.sandbox import SandboxServer, SandboxSettings, run_sandbox
from tppkit.testpki import key_pem, write_pki

pytestmark = pytest.mark.slow


@contextmanager
def listening(offset: int = 0) -> Iterator[int]:
    """A port in use by another socket, minus `offset`."""
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        yield taken.getsockname()[1] - offset


@pytest.mark.parametrize("offset", [0, 1, 3], ids=["psd2", "approval", "control"])
def test_a_port_that_is_in_use_is_refused(offset, tmp_path, bank_pki_folder):
    with listening(offset) as port, refused(ConfigurationError, "port.unavailable"):
        SandboxServer(SandboxSettings(tmp_path, pki=bank_pki_folder, port=port))


def test_a_port_is_bound_before_the_server_answers(tmp_path, bank_pki_folder):
    first = SandboxServer(SandboxSettings(tmp_path / "first", pki=bank_pki_folder))
    port = int(first.addresses.psd2_url.rpartition(":")[2])
    try:
        with refused(ConfigurationError, "port.unavailable"):
            SandboxServer(SandboxSettings(tmp_path / "second", pki=bank_pki_folder, port=port))
    finally:
        first.close()


@pytest.mark.parametrize("place", [{"port": -5}, {"port": 65_534}, {"port": 70_000}, {"host": "192.0.2.1"}], ids=str)
def test_a_port_that_does_not_exist_or_an_address_of_another_machine_is_refused(place, tmp_path, bank_pki_folder):
    with refused(ConfigurationError, "port.unavailable"):
        SandboxServer(SandboxSettings(tmp_path, pki=bank_pki_folder, **place))


def test_two_sandboxes_on_one_folder_are_refused(fresh_bank):
    with refused(ArchiveError, "archive.locked"):
        SandboxServer(fresh_bank.sandbox.settings)


@pytest.mark.parametrize("name", ["server.key", "server-chain.pem"])
def test_a_folder_without_a_server_certificate_is_refused(name, bank_pki, tmp_path):
    write_pki(bank_pki, tmp_path / "pki")
    (tmp_path / "pki" / name).unlink()
    with refused(ConfigurationError, "pki.unusable"):
        SandboxServer(SandboxSettings(tmp_path / "sandbox", pki=tmp_path / "pki"))


def test_a_folder_without_a_test_pki_says_how_to_make_one(tmp_path):
    with refused(ConfigurationError, "pki.unusable", match=f"no test PKI in {tmp_path}.* tppkit pki create {tmp_path}"):
        SandboxServer(SandboxSettings(tmp_path / "sandbox", pki=tmp_path))


def test_a_start_that_failed_leaves_nothing_open(bank_pki, tmp_path):
    settings = SandboxSettings(tmp_path / "sandbox", pki=tmp_path / "pki")
    write_pki(bank_pki, settings.pki or tmp_path)
    key = tmp_path / "pki" / "server.key"
    key.write_bytes(key_pem(bank_pki.qwac.key))
    with pytest.raises(ConfigurationError) as caught:
        SandboxServer(settings)
    assert caught.value.code == "tls.private-key"
    key.write_bytes(key_pem(bank_pki.server.key))
    SandboxServer(settings).close()  # the first attempt, still referred to by `caught`, holds no lock
    assert caught.value is not None


@pytest.mark.parametrize("database", ["nonsense", "mysql://h/d", "postgresql://h:x/d", "sqlite:///file:x?uri=true"])
def test_a_database_that_cannot_be_opened_leaves_the_archive_free(tmp_path, bank_pki_folder, database):
    settings = SandboxSettings(tmp_path, pki=bank_pki_folder, database=database)
    for _ in range(2):
        with refused(ConfigurationError, "database.unusable"):
            SandboxServer(settings)


def test_a_database_whose_evidence_belongs_to_another_folder_is_refused(tmp_path, bank_pki_folder):
    settings = SandboxSettings(tmp_path / "a", pki=bank_pki_folder, database=f"sqlite:///{tmp_path / 'shared.sqlite'}")
    for _ in range(2):
        SandboxServer(settings).close()
    with refused(ConfigurationError, "database.unusable"):
        SandboxServer(replace(settings, directory=tmp_path / "b"))


def test_without_a_pki_one_is_made_and_kept(open_bank, tmp_path):
    keys = []
    for _ in range(2):
        with open_bank(pki=None) as server:
            assert Path(server.addresses.pki) == tmp_path / "sandbox" / "pki"
            keys.append((tmp_path / "sandbox" / "pki" / "server.key").read_bytes())
    assert keys[0] == keys[1]


def test_no_host_names_its_server_software(bank, connect):
    answers = [connect(bank).request("GET", "/"), httpx.get(bank.addresses.approval_url, trust_env=False)]
    assert not [answer for answer in answers if "server" in answer.headers]


def test_a_sandbox_that_was_stopped_answers_no_more_and_frees_its_folder(open_bank):
    with open_bank() as server:
        url = server.addresses.control_url
    with pytest.raises(httpx.ConnectError):
        httpx.get(url, trust_env=False)
    with open_bank():
        pass


def test_the_ready_file_has_all_addresses_is_readable_by_its_owner_only_and_replaces_an_older_one(bank, tmp_path):
    path = tmp_path / "ready.json"
    path.write_text("old")
    bank.addresses.write(path)
    ready = json.loads(path.read_bytes())
    assert (ready["psd2_url"], ready["pki"]) == (bank.addresses.psd2_url, bank.addresses.pki)
    urls = {f"{host}_url" for host in ("psd2", "approval", "gateway", "vault", "legacy", "legacy_live", "control")}
    keys = {"legacy_api_key", "legacy_live_api_key", "legacy_public_key", "legacy_live_public_key", "project_id"}
    assert set(ready) == {*urls, *keys, "api_key", "pki"}
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["ready.json"]


def test_every_path_of_the_ready_file_is_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with run_sandbox(SandboxSettings(Path("bank"))) as server:
        found = server.addresses
    paths = [Path(one) for one in (found.pki, found.legacy_public_key, found.legacy_live_public_key)]
    assert [path.is_absolute() and path.exists() for path in paths] == [True] * 3


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::"])
def test_what_is_called_localhost_answers_at_both_addresses_of_loopback(host, open_bank):
    with open_bank(host=host) as server:
        assert urlsplit(server.addresses.approval_url).hostname == "localhost"
        for port, address in product(server.ports.values(), ["127.0.0.1", "::1"]):
            socket.create_connection((address, port)).close()


def test_without_ipv6_the_address_is_printed_instead_of_localhost(open_bank):
    with ExitStack() as stack:
        while True:  # until the ports of IPv4 are free
            taken = socket.create_server(("::1", 0), family=socket.AF_INET6)
            stack.callback(taken.close)
            with suppress(ConfigurationError):
                server = stack.enter_context(open_bank(port=taken.getsockname()[1]))
                break
        urls = [getattr(server.addresses, f"{name}_url") for name in server.ports]
        assert {urlsplit(url).hostname for url in urls} == {"127.0.0.1"}
        assert httpx.get(server.addresses.approval_url, trust_env=False).status_code == 200


@pytest.mark.parametrize("name", ["nowhere/ready.json", "."])
def test_a_ready_file_that_cannot_be_written_is_reported(name, bank, tmp_path):
    with refused(ConfigurationError, "file.unwritable"):
        bank.addresses.write(tmp_path / name)
