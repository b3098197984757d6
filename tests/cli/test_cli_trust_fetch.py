"""`tppkit trust fetch` against a server of this machine that serves the lists of 2023."""

from __future__ import annotations

import functools
import http.server
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


def test_addresses_of_the_own_network_are_fetched_only_if_allowed(tppkit, address, tmp_path):
    result = tppkit("trust", "fetch", tmp_path, "--url", address)
    assert result.exit_code == 3
    assert "[fetch.refused]" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_territory_that_is_not_named_is_wrong_usage_after_the_list_of_the_lists_was_written(
    tppkit, address, tmp_path
):
    result = tppkit("trust", "fetch", tmp_path, "--url", address, "--allow-private", "--territory", "xx")
    assert result.exit_code == 2
    assert "[trusted-list.missing]" in result.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["EU-LOTL.xml"]
