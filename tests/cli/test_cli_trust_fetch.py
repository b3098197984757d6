"""`tppkit trust fetch` against a server of this machine that serves the lists of 2023."""

from __future__ import annotations

import functools
import http.server
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from servers import pages
from tppkit.testpki import certificate_pem, make_pki
from tppkit.testpki.trusted_lists import make_trusted_lists

pytestmark = pytest.mark.shared


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serving(handler: Callable[..., _Quiet]) -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def address(shared_data):
    folder = shared_data / "certificates" / "trusted-lists"
    with serving(functools.partial(_Quiet, directory=str(folder))) as address:
        yield f"{address}/EU-LOTL.xml"


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
    line = result.stderr.partition("convert it: ")[2].partition(" [")[0]
    subprocess.run(["/bin/sh", "-c", line], check=True)
    assert link.is_symlink()
    assert "[trusted-list.missing]" in fetched_from(tppkit, address, link, "--territory", "xx").stderr


def test_a_list_of_the_lists_that_fails_verification_fetches_nothing(tppkit, address, tmp_path):
    result = fetched_from(tppkit, address.replace("EU-LOTL", "FI"), tmp_path / "lists")
    assert (result.exit_code, list(tmp_path.iterdir())) == (3, [])


@pytest.fixture
def aged(tmp_path):
    """A link to a folder with the signer of a test PKI, and the address of its list of lists, which is 40 days old."""
    with pages() as (address, found):
        issued = datetime.now(UTC) - timedelta(days=40)
        pki = make_pki(at=issued, services_url=address)
        found |= make_trusted_lists(pki, at=issued)
        (tmp_path / "lists.20260101T000000Z" / "lotl-signers").mkdir(parents=True)
        signer = certificate_pem(pki.members["lotl-signer"].certificate)
        (tmp_path / "lists.20260101T000000Z" / "lotl-signers" / "a.pem").write_bytes(signer)
        (tmp_path / "lists").symlink_to("lists.20260101T000000Z")
        yield tmp_path / "lists", f"{address}/eu-lotl.xml"


def test_lists_in_force_are_fetched_and_fail_if_they_are_older_than_the_given_age(tppkit, aged):
    link, address = aged
    for age, code, exit_code in (("50", None, 0), ("30", "trusted-list.old", 1)):
        result = fetched_from(tppkit, address, link, "--max-age", age, "--json")
        assert (result.exit_code, result.json["code"]) == (exit_code, code)
    assert {one["territory"] for one in result.json["unchanged"]} == {"EU", "LT"}
    assert {failure["territory"] for failure in result.json["failures"]} == {"EU", "LT"}
