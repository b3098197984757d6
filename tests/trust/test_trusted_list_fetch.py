"""Lists fetched over HTTP from a server of this machine, verified before anything is written."""

from __future__ import annotations

import http.server
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import timedelta

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from list_builder import ISSUED, NEXT_UPDATE, ListFacts, list_of_lists, pointer, sign, write_list

from refusals import refused
from tppkit.errors import ConfigurationError, TransportError, VerificationError
from tppkit.trust import load_trusted_lists
from tppkit.trust.trusted_list.fetch import FetchedLists, fetch_trusted_lists
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
