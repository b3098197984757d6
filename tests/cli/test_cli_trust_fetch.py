"""`tppkit trust fetch` against a server of this machine that serves the lists of 2023."""

from __future__ import annotations

import functools
import http.server
import subprocess
import threading

import pytest

pytestmark = pytest.mark.shared


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def address(shared_data):
    folder = shared_data / "certificates" / "trusted-lists"
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/EU-LOTL.xml"
    server.shutdown()
    server.server_close()
    thread.join()


def fetched_from(tppkit, address, link, *options):
    return tppkit("trust", "fetch", link, "--url", address, "--allow-private", *options)


def test_addresses_of_the_own_network_are_fetched_only_if_allowed(tppkit, address, tmp_path):
    result = tppkit("trust", "fetch", tmp_path / "lists", "--url", address)
    assert result.exit_code == 3
    assert "[fetch.refused]" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_territory_that_is_not_named_is_wrong_usage_and_changes_nothing(tppkit, address, tmp_path):
    result = fetched_from(tppkit, address, tmp_path / "lists", "--territory", "xx")
    assert result.exit_code == 2
    assert "[trusted-list.missing]" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_plain_folder_is_wrong_usage_and_the_stated_command_converts_it(tppkit, address, tmp_path):
    link = tmp_path / "my lists"
    link.mkdir()
    result = fetched_from(tppkit, address, link)
    assert result.exit_code == 2
    command = result.stderr.partition("convert it: ")[2].partition(" [")[0]
    subprocess.run(["/bin/sh", "-c", command], check=True)
    assert link.is_symlink()
    assert "[trusted-list.missing]" in fetched_from(tppkit, address, link, "--territory", "xx").stderr


def test_a_list_of_the_lists_that_fails_verification_fetches_nothing(tppkit, address, tmp_path):
    result = fetched_from(tppkit, address.replace("EU-LOTL", "FI"), tmp_path / "lists")
    assert (result.exit_code, list(tmp_path.iterdir())) == (3, [])
