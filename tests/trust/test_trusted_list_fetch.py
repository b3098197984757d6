"""Lists fetched over HTTP from a server of this machine, verified before anything is written."""

from __future__ import annotations

import http.server
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from list_builder import ISSUED, NEXT_UPDATE, ListFacts, list_of_lists, pointer, sign, write_list

from refusals import refused
from tppkit.errors import ConfigurationError, FormatError, TransportError, VerificationError
from tppkit.trust import load_trusted_lists
from tppkit.trust.trusted_list.fetch import FetchedLists, fetch_trusted_lists
from tppkit.trust.trusted_list.refresh import refresh_trusted_lists
from tppkit.trust.trusted_list.uris import LIST_OF_LISTS


class Site:
    """What the server serves, by path."""

    def __init__(self) -> None:
        self.pages: dict[str, bytes] = {}
        self.asked: list[str] = []
        site = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append(self.path)
                page = site.pages.get(self.path)
                self.send_response(404 if page is None else 200)
                self.send_header("Content-Length", str(len(page or b"")))
                self.end_headers()
                self.wfile.write(page or b"")

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    thread = threading.Thread(target=site.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield site
    site.server.shutdown()
    site.server.server_close()
    thread.join()


def fetch(
    url: str, *, max_bytes: int, timeout: float, body: bytes | None = None, content_type: str | None = None
) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=timeout) as answer:
            return answer.read(max_bytes)
    except urllib.error.HTTPError as e:
        with e:
            raise TransportError("fetch.failed", f"{url} answers with status {e.code}") from e


@pytest.fixture
def folder(tmp_path, commission):
    (tmp_path / "lotl-signers").mkdir()
    (tmp_path / "lotl-signers" / "a.pem").write_bytes(commission.certificate.x509.public_bytes(Encoding.PEM))
    return tmp_path


@pytest.fixture
def publish(site, commission, operator):
    def publish(*territories: str, number: int = 300, national_number: int = 7, signer=None, **facts) -> None:
        pointers = [pointer(t, [operator.certificate], location=f"{site.url}/{t}") for t in territories]
        site.pages["/lotl"] = sign(list_of_lists(pointers, sequence_number=number, **facts), signer or commission)
        for territory in territories:
            national = ListFacts(territory, operator=f"Scheme operator of {territory}", sequence_number=national_number)
            site.pages[f"/{territory}"] = sign(write_list(national), operator)

    return publish


@pytest.fixture
def run(folder, site):
    def run(**arguments) -> FetchedLists:
        return fetch_trusted_lists(folder, fetch=fetch, address=f"{site.url}/lotl", **arguments)

    return run


def numbers(lists) -> dict[str, int]:
    return {one.territory: one.sequence_number for one in lists}


def names(folder) -> list[str]:
    return sorted(file.name for file in folder.iterdir() if file.is_file())


def test_all_lists_are_fetched_and_load(folder, publish, run):
    publish("PT", "NO")
    told: list[str] = []
    fetched = run(progress=told.append)
    assert numbers(fetched.written) == {"EU": 300, "PT": 7, "NO": 7}
    assert told == ["PT", "NO"]
    assert names(folder) == ["EU-LOTL.xml", "NO.xml", "PT.xml"]
    assert numbers(load_trusted_lists(folder).lists) == {"PT": 7, "NO": 7}


def test_only_the_wanted_territories_are_fetched(folder, publish, run, site):
    publish("PT", "NO")
    run(territories=["NO"])
    assert names(folder) == ["EU-LOTL.xml", "NO.xml"]
    assert site.asked == ["/lotl", "/NO"]


def test_a_territory_that_is_not_named_is_refused(publish, run):
    publish("PT")
    with refused(ConfigurationError, "trusted-list.missing"):
        run(territories=["XX"])


def test_the_same_lists_again_are_kept(folder, publish, run):
    publish("PT")
    run()
    before = (folder / "PT.xml").stat().st_mtime_ns
    fetched = run()
    assert (fetched.written, numbers(fetched.kept)) == ((), {"EU": 300, "PT": 7})
    assert (folder / "PT.xml").stat().st_mtime_ns == before


def test_newer_lists_replace_the_present_ones_under_their_names(folder, publish, run):
    publish("PT")
    run()
    (folder / "PT.xml").rename(folder / "portugal.xml")
    publish("PT", number=301, national_number=8)
    assert numbers(run().written) == {"EU": 301, "PT": 8}
    assert names(folder) == ["EU-LOTL.xml", "portugal.xml"]
    assert numbers(load_trusted_lists(folder).lists) == {"PT": 8}


def test_an_older_national_list_is_refused(folder, publish, run):
    publish("PT", national_number=8)
    run()
    publish("PT", national_number=7)
    fetched = run()
    assert [(f.territory, f.code) for f in fetched.failures] == [("PT", "trusted-list.rollback")]
    assert numbers(load_trusted_lists(folder).lists) == {"PT": 8}


def test_an_older_list_of_the_lists_is_refused(folder, publish, run):
    publish("PT", number=301)
    run()
    publish("PT", number=300, national_number=8)
    with refused(VerificationError, "trusted-list.rollback"):
        run()
    assert numbers(load_trusted_lists(folder).lists) == {"PT": 7}


@pytest.mark.parametrize(
    ("page", "code"),
    [
        (None, "fetch.failed"),
        (b"<html>try later</html>", "trusted-list.malformed"),
        (b"", "trusted-list.malformed"),
    ],
)
def test_a_list_that_is_not_served_is_reported_and_the_old_one_kept(folder, publish, run, site, page, code):
    publish("PT", "NO")
    run()
    publish("PT", "NO", number=301, national_number=8)
    if page is None:
        del site.pages["/PT"]
    else:
        site.pages["/PT"] = page
    fetched = run()
    assert [(f.territory, f.code) for f in fetched.failures] == [("PT", code)]
    assert numbers(load_trusted_lists(folder).lists) == {"PT": 7, "NO": 8}


def test_a_tampered_list_is_never_written(folder, publish, run, site):
    publish("PT")
    site.pages["/PT"] = site.pages["/PT"].replace(b"Scheme operator", b"Sheme operator")
    assert [f.code for f in run().failures] == ["trusted-list.signature"]
    assert names(folder) == ["EU-LOTL.xml"]


def test_the_list_of_another_territory_is_never_written(folder, publish, run, site):
    publish("PT", "NO")
    site.pages["/PT"] = site.pages["/NO"]
    assert [(f.territory, f.code) for f in run().failures] == [("PT", "trusted-list.not-named")]
    assert names(folder) == ["EU-LOTL.xml", "NO.xml"]


def test_a_list_of_the_lists_of_an_unknown_signer_is_never_written(folder, publish, run, operator):
    publish("PT", signer=operator)
    with refused(VerificationError, "trusted-list.signer"):
        run()
    assert names(folder) == []


@pytest.fixture(scope="module")
def following(certify):
    return certify("Next Commission", ca=False)


@pytest.fixture
def pivot(site, commission, following):
    """Serves a pivot that announces the next signer."""

    def pivot(path: str, number: int, *, signer=None, announced=following) -> None:
        announcing = pointer("EU", [announced.certificate], type_=LIST_OF_LISTS)
        site.pages[path] = sign(list_of_lists([announcing], sequence_number=number), signer or commission)

    return pivot


def through(site, *paths: str) -> dict[str, tuple[str, ...]]:
    return {"information_uris": tuple(f"{site.url}{path}" for path in paths)}


def test_a_pivot_that_is_not_served_is_reported_and_an_older_one_leads_on(folder, publish, pivot, run, site, following):
    pivot("/298.xml", 298)
    publish("PT", signer=following, **through(site, "/gone.xml", "/298.xml"))
    fetched = run()
    assert [(failure.source, failure.code) for failure in fetched.failures] == [
        (f"{site.url}/gone.xml", "fetch.failed")
    ]
    assert numbers(load_trusted_lists(folder).lists) == {"PT": 7}


def test_no_more_pivots_are_fetched_than_lead_to_a_trusted_signer(publish, pivot, run, site, following):
    pivot("/299.xml", 299)
    pivot("/298.xml", 298)
    publish("PT", signer=following, **through(site, "/299.xml", "/298.xml"))
    run()
    assert site.asked == ["/lotl", "/299.xml", "/PT"]


def test_pivots_lead_through_several_changes_of_signer(folder, publish, pivot, run, site, following, certify):
    third = certify("Third Commission", ca=False)
    pivot("/298.xml", 298)
    pivot("/299.xml", 299, signer=following, announced=third)
    publish("PT", signer=third, **through(site, "/299.xml", "/journal", "/298.xml"))
    fetched = run()
    assert (numbers(fetched.written), fetched.failures) == ({"EU": 300, "PT": 7}, ())
    assert names(folder) == ["EU-LOTL.xml", "PT.xml", "pivot-298.xml", "pivot-299.xml"]
    assert load_trusted_lists(folder).failures == ()


def test_a_pivot_of_an_unknown_signer_is_never_written(folder, publish, pivot, run, site, following, operator):
    pivot("/299.xml", 299, signer=operator)
    pivot("/298.xml", 298)
    publish("PT", signer=following, **through(site, "/299.xml", "/298.xml"))
    assert [failure.code for failure in run().failures] == ["trusted-list.signer"]
    assert names(folder) == ["EU-LOTL.xml", "PT.xml", "pivot-298.xml"]


def test_a_pivot_that_is_not_older_leads_nowhere(folder, publish, pivot, run, site, following):
    pivot("/305.xml", 305)
    publish("PT", signer=following, **through(site, "/305.xml"))
    with refused(VerificationError, "trusted-list.signer"):
        run()
    assert names(folder) == []


def test_an_untrusted_list_leads_to_no_other_server(publish, run, site, operator):
    publish("PT", signer=operator, information_uris=("http://127.0.0.1:1/a.xml", "http://[/b.xml", "file:///c.xml"))
    with refused(VerificationError, "trusted-list.signer"):
        run()
    assert site.asked == ["/lotl"]


def test_one_bad_answer_changes_no_present_file(folder, publish, pivot, run, site, following, operator):
    pivot("/290.xml", 290)
    publish("PT", signer=following, **through(site, "/290.xml"))
    run()
    before = {name: (folder / name).read_bytes() for name in names(folder)}
    site.pages["/real.xml"] = site.pages["/lotl"]
    pivot("/junk.xml", 290, signer=operator)
    publish("PT", number=400, signer=operator, **through(site, "/290.xml", "/real.xml", "/junk.xml"))
    with refused(VerificationError, "trusted-list.signer"):
        run()
    assert {name: (folder / name).read_bytes() for name in names(folder)} == before


def test_a_present_pivot_is_not_replaced_by_another_of_its_number(folder, publish, pivot, run, site, following):
    pivot("/290.xml", 290)
    publish("PT", signer=following, **through(site, "/290.xml"))
    run()
    before = (folder / "pivot-290.xml").read_bytes()
    pivot("/290.xml", 290)
    assert site.pages["/290.xml"] != before
    assert run().failures == ()
    assert (folder / "pivot-290.xml").read_bytes() == before


def test_a_national_list_is_not_mistaken_for_the_list_of_the_lists(folder, site, run, commission):
    site.pages["/lotl"] = sign(write_list(ListFacts()), commission)
    with refused(VerificationError, "trusted-list.not-lotl"):
        run()
    assert names(folder) == []


def test_a_folder_that_is_not_there_is_refused(tmp_path, publish, site):
    publish("PT")
    with refused(ConfigurationError, "trust.unreadable"):
        fetch_trusted_lists(tmp_path / "absent", fetch=fetch, address=f"{site.url}/lotl")


def test_a_list_of_the_lists_of_an_earlier_day_is_refused_whatever_its_number(folder, publish, run):
    publish("PT", number=301)
    run()
    publish("PT", number=999_999, issued=ISSUED - timedelta(days=30), next_update=NEXT_UPDATE - timedelta(days=30))
    with refused(VerificationError, "trusted-list.rollback"):
        run()
    publish("PT", number=302)
    assert numbers(run().written)["EU"] == 302


@pytest.fixture
def link(tmp_path, commission):
    """A link to a folder with the signers of the list of lists, as an operator converts a plain folder."""
    first = tmp_path / "lists.20260101T000000Z"
    (first / "lotl-signers").mkdir(parents=True)
    (first / "lotl-signers" / "a.pem").write_bytes(commission.certificate.x509.public_bytes(Encoding.PEM))
    made = tmp_path / "lists"
    made.symlink_to(first.name)
    return made


@pytest.fixture
def refresh(link, site):
    """Refresh at successive seconds."""
    seconds = count(1)

    def refresh(**arguments) -> FetchedLists:
        at = ISSUED + timedelta(seconds=next(seconds))
        return refresh_trusted_lists(link, fetch=fetch, at=at, address=f"{site.url}/lotl", **arguments)

    return refresh


def beside(link) -> list[str]:
    return sorted(one.name for one in link.parent.iterdir())


def test_a_refresh_switches_to_a_new_folder_and_keeps_the_one_before(link, publish, refresh):
    publish("PT")
    for number in (301, 302, 303):
        before = link.readlink()
        publish("PT", number=number)
        refresh()
        assert load_trusted_lists(link).list_of_lists.sequence_number == number
        assert beside(link) == ["lists", before.name, link.readlink().name]
    assert link.readlink().name == "lists.20260501T000003.000000Z"
    assert names(link) == ["EU-LOTL.xml", "PT.xml"]


def test_a_list_that_fails_keeps_its_old_version_in_the_new_folder(link, publish, refresh, site):
    publish("PT", "NO")
    refresh()
    publish("PT", "NO", number=301, national_number=8)
    site.pages["/PT"] = b"<half"
    assert [failure.territory for failure in refresh().failures] == ["PT"]
    assert numbers(load_trusted_lists(link).lists) == {"PT": 7, "NO": 8}


def test_a_refresh_that_fetches_nothing_changes_nothing(link, publish, refresh, site):
    publish("PT")
    refresh()
    before = beside(link), link.readlink()
    site.pages["/lotl"] = b"<half"
    with refused(FormatError, "trusted-list.malformed"):
        refresh()
    assert (beside(link), link.readlink()) == before


def test_a_link_and_its_folder_are_made(tmp_path, site, publish):
    publish("PT")
    link = tmp_path / "new" / "lists"
    with refused(VerificationError, "trusted-list.signer"):  # no folder has the signers of the test
        refresh_trusted_lists(link, fetch=fetch, at=ISSUED, address=f"{site.url}/lotl")
    assert beside(link) == []


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_what_is_no_link_is_refused(kind, tmp_path):
    link = tmp_path / "lists"
    link.mkdir() if kind == "folder" else link.write_text("")
    with refused(ConfigurationError, "trusted-list.no-link"):
        refresh_trusted_lists(link, fetch=fetch, at=ISSUED)
    assert beside(link) == ["lists"]


@pytest.mark.parametrize("name", [Path(), Path(".."), Path("/"), ""])
def test_what_can_be_no_link_is_refused(name):
    with refused(ConfigurationError, "trusted-list.no-link" if name else "file.path"):
        refresh_trusted_lists(name, fetch=fetch, at=ISSUED)


def test_what_killed_runs_left_is_removed_and_nothing_else(link, publish, refresh):
    left = [".lists.20260401T000000.000000Z-abcd_123", "lists.20260401T000000.000000Z"]
    others = ["lists.old", ".lists-backup", "lists2.20260401T000000.000000Z", "lists.20260401T000000.000000Z.bak"]
    for name in (*left, *others):
        link.with_name(name).mkdir()
    publish("PT")
    refresh()
    assert set(beside(link)) == {*others, "lists", "lists.20260101T000000Z", link.readlink().name}


def test_concurrent_refreshes_leave_one_whole_folder_in_use(link, publish, refresh):
    publish("PT")
    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(refresh) for _ in range(4)]:
            done.result()
    assert numbers(load_trusted_lists(link).lists) == {"PT": 7}
    assert len(beside(link)) == 3


# Refreshes copies of a folder, each in a process that ends in place of one of the calls that change a name, and one with little room.
_ENDING = """
import os, resource, shutil, sys, urllib.request
from datetime import UTC, datetime
from pathlib import Path
from tppkit.errors import ConfigurationError
from tppkit.trust import load_trusted_lists
from tppkit.trust.trusted_list.refresh import refresh_trusted_lists

CHANGES = {"os.rename", "os.symlink", "os.mkdir", "os.rmdir", "os.remove"}
folder, address = Path(sys.argv[1]), sys.argv[2]

def refresh(link):
    fetch = lambda url, **_: urllib.request.urlopen(url).read()
    refresh_trusted_lists(link, fetch=fetch, at=datetime.now(UTC), address=address)

def child(name, before):
    copy = shutil.copytree(folder, folder.with_name(name), symlinks=True)
    pid = os.fork()
    if pid == 0:
        try:
            before()
            refresh(copy / "lists")
            os._exit(0)
        except ConfigurationError as e:
            os._exit(2 if e.code == "file.unwritable" else 1)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    lists = load_trusted_lists(copy / "lists")
    print(code, lists.list_of_lists.sequence_number, *[one.sequence_number for one in lists.lists], *lists.failures)
    return code

def end_at(last):
    seen = 0
    def hook(event, _):
        nonlocal seen
        seen += event in CHANGES
        if seen == last and event in CHANGES:
            os.kill(os.getpid(), 9)
    sys.addaudithook(hook)

child("full", lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)))
last = 1
while child(str(last), lambda: end_at(last)) != 0:
    last += 1
"""


@pytest.mark.slow
def test_a_run_that_is_killed_at_any_step_or_lacks_room_leaves_the_old_or_the_whole_new_state(
    link, publish, refresh, site
):
    publish("PT")
    refresh()
    publish("PT", number=301, national_number=8)
    command = [sys.executable, "-c", _ENDING, str(link.parent), f"{site.url}/lotl"]
    full, *killed, whole = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert (full, whole) == ("2 300 7", "0 301 8")
    before = killed.count("-9 300 7")
    assert before > 8
    assert killed[before:] == ["-9 301 8"] * (len(killed) - before) != []
