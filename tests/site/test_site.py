"""The built site: links and anchors, an entry for every public name, search and pages in a browser."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import make_diagrams
import tppkit
from check_site import ANCHORS, Page, add_anchors, lost_anchors, problems, search_rows
from make_site import list_versions
from programs import needed
from public_names import public_names
from tppkit.codes import CODES
from tppkit.protocol.assumptions import ASSUMPTIONS

ROOT = Path(__file__).parents[2]
WIDTH_PX = 390
WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
SEARCHES = {
    "SIGNATURE_INVALID": "reference/psd2",
    "renew": "how-to/renew-certificates",
    "nginx": "how-to/behind-a-proxy",
    "PKCS#12": "how-to/call-a-bank",
    "replay": "how-to/repeated-requests",
    "frequencyPerDay": "how-to/rehearse-failures",
    "HSM": "how-to/keys-in-hsm-or-kms",
    "webhook retry": "how-to/receive-webhooks",
    "PAN": "how-to/card-numbers",
    "auditor": "how-to/audit",
    "seal does not verify": "how-to/why-a-seal-does-not-verify",
    "digest.mismatch": "reference/codes",
    "Psd2Client": "reference/api/client",
    "callback rejected": "how-to/why-a-callback-was-rejected",
    "postgresql": "how-to/handle-once",
    "trusted list": "how-to/is-it-qualified",
    "mTLS": "how-to/call-a-bank",
    "idempotent": "how-to/repeated-requests",
    "docker": "how-to/in-ci-and-containers",
    "another bank": "how-to/another-bank",
    "seal diagnose": "reference/cli",
    "certifcate for tests": "how-to/test-certificates",
}


def build(folder: Path, seed: str) -> Path:
    """The site, built with another order of sets each time."""
    command = [sys.executable, str(ROOT / "tools/make_site.py"), str(folder)]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder / tppkit.__version__


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site that `make site` has built where TPPKIT_SITE says, or another one."""
    built = os.environ.get("TPPKIT_SITE")
    return Path(built, tppkit.__version__) if built else build(tmp_path_factory.mktemp("site"), "1")


@pytest.fixture(scope="module")
def served(site: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(site)))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright; install the extra dev")
    program = needed("chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, chromium_sandbox=os.geteuid() != 0)
        yield browser
        browser.close()


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_every_diagram_has_its_pictures_and_none_is_left_over():
    wanted = {f"{name}-{scheme}.svg" for name in make_diagrams.sources() for scheme in make_diagrams.THEMES}
    assert {path.name for path in make_diagrams.FOLDER.iterdir()} == wanted


def test_a_page_is_told_what_is_wrong_with_its_links(tmp_path):
    (tmp_path / "other.html").write_text("<p id=here>")
    (tmp_path / "page.html").write_text(
        "<a href='other.html#here'></a><a href='other.html#there'></a><a href='missing.html'></a><a href='#top'></a>"
        "<img src='https://elsewhere.example/x.png'><a href='https://elsewhere.example/'></a><p id=twice><p id=twice>"
    )
    styles = [
        "url('https://a.example/')",
        'url( "//a.example/")',
        "url(http://a.example/)",
        '@import "a.css"',
        "url('a.svg')",
    ]
    for number, style in enumerate(styles):
        (tmp_path / f"{number}.css").write_text(f"p {{ background: {style} }}")
    assert list(problems(tmp_path)) == [
        "page.html: the id twice occurs twice",
        "page.html: no anchor #top",
        "page.html: no file missing.html",
        "page.html: no anchor other.html#there",
        "page.html: loads https://elsewhere.example/x.png",
        *(f"{number}.css: loads from elsewhere" for number in range(4)),
    ]


def test_the_file_of_anchors_only_grows_and_a_lost_one_is_named(tmp_path):
    rows = [["page.html#here", "Here", "Page", ""], ["page.html#id2", "Here", "Page", ""]]
    (tmp_path / "_static").mkdir()
    (tmp_path / "_static/search-rows.js").write_text(f"window.searchRows = {json.dumps(rows)};\n")
    (tmp_path / "page.html").write_text("<p id=here>")
    anchors = tmp_path / "anchors.txt"
    anchors.write_text("gone.html#a\npage.html#gone\n")
    add_anchors(tmp_path, anchors)
    assert anchors.read_text() == "gone.html#a\npage.html#gone\npage.html#here\n"
    assert lost_anchors(tmp_path, anchors) == ["gone.html#a", "page.html#gone"]


def versions_of(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).mkdir()
        (folder / name / "index.html").write_text(name)
    list_versions(folder)


def test_the_latest_version_is_the_highest_and_all_are_listed(tmp_path):
    versions_of(tmp_path, "0.10.0", "0.9.0")
    versions_of(tmp_path, "0.9.1")
    assert json.loads((tmp_path / "versions.json").read_text()) == ["0.10.0", "0.9.1", "0.9.0"]
    assert (tmp_path / "latest/index.html").read_text() == "0.10.0"


@pytest.mark.slow
def test_a_page_from_disk_links_the_other_versions(site, chromium, tmp_path):
    (tmp_path / tppkit.__version__).symlink_to(site)
    versions_of(tmp_path, "9.0.0")
    page = chromium.new_page()
    page.goto((tmp_path / tppkit.__version__ / "how-to/audit.html").as_uri())
    page.locator(".versions a", has_text="9.0.0").click()
    assert page.content().count("9.0.0") == 1
    page.close()


@pytest.mark.slow
def test_no_published_anchor_is_lost(site):
    assert lost_anchors(site, ANCHORS) == []


@pytest.mark.slow
def test_a_second_build_is_the_same_byte_for_byte(site, tmp_path):
    first, second = tree(site), tree(build(tmp_path, "2"))
    assert {name for name in first.keys() | second.keys() if first.get(name) != second.get(name)} == set()


@pytest.mark.slow
def test_every_link_and_anchor_exists_and_nothing_is_loaded_from_elsewhere(site):
    assert list(problems(site)) == []


@pytest.mark.slow
def test_every_public_name_has_an_entry_with_a_text(site):
    described = {address.partition("#")[2] for address, _, _, text in search_rows(site) if text}
    names = [name for names in public_names().values() for name in names]
    assert {f"{name.home}.{name.name}" for name in names} - described == set()


@pytest.mark.slow
def test_every_code_and_every_assumption_has_an_anchor(site):
    assert {f"code-{code}" for code in CODES} <= Page(site / "reference/codes.html").anchors
    assert {f"assumption-{row.id}" for row in ASSUMPTIONS} <= Page(site / "reference/assumptions.html").anchors


@pytest.mark.slow
def test_signatures_are_those_that_users_call(site):
    pages = list((site / "reference/api").glob("*.html"))
    shown = [
        re.sub(r"<[^>]+>", "", block)
        for page in pages
        for block in re.findall(r"<dt class=\"sig.*?</dt>", page.read_text(), re.DOTALL)
    ]
    assert any(text.strip().startswith("async order(order_id: str) &#x2192; Order") for text in shown)
    assert [text for text in shown if re.search(r"Call\[| at 0x|Annotated\[|PagedCall", text)] == []


@pytest.mark.slow
@pytest.mark.parametrize("way", ["http", "file"])
def test_the_search_names_the_right_page_within_the_first_three(way, site, served, chromium):
    page = chromium.new_page()
    page.goto(f"{served if way == 'http' else site.as_uri()}/how-to/audit.html")
    wrong = {}
    for words, wanted in SEARCHES.items():
        page.locator(".sidebar-search").fill(words)
        page.wait_for_function("words => document.querySelector('.found').dataset.of === words", arg=words)
        found = page.locator(".found a").evaluate_all("links => links.map((link) => link.href)")
        if not any(f"/{wanted}.html" in link for link in found[:3]):
            wrong[words] = [link.rpartition(f"/{tppkit.__version__}/")[2] for link in found[:3]]
    page.close()
    assert wrong == {}


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_is_wider_than_a_phone(scheme, site, chromium):
    page = chromium.new_context(viewport={"width": WIDTH_PX, "height": 844}, color_scheme=scheme).new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    wide = []
    for path in sorted(site.rglob("*.html")):
        page.goto(path.as_uri())
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            wide.append(path.name)
    page.context.close()
    assert (wide, errors) == ([], [])


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_but_lists_of_sphinx_and_empty_corners_of_tables(scheme, site, chromium):
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="needs axe-playwright-python; install dev"
    )
    page = chromium.new_context(color_scheme=scheme).new_page()
    found = set()
    for name in ("index", "tutorials/first-payment", "explanation/design", "reference/rules", "reference/api/testpki"):
        page.goto((site / f"{name}.html").as_uri())
        violations = axe.Axe().run(page, options={"runOnly": WCAG}).response["violations"]
        found |= {
            f"{name}: {one['id']}" for one in violations if one["id"] not in ("definition-list", "empty-table-header")
        }
    page.context.close()
    assert found == set()


@pytest.mark.slow
def test_commands_are_copied_without_prompts_and_tabs_change(served, chromium):
    context = chromium.new_context()
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(f"{served}/tutorials/first-payment.html")
    page.locator(".highlight-console button.copybtn").first.click()
    page.wait_for_selector(".copybtn.success")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.splitlines()[1] == "pip install -c constraints.txt '.[sandbox]'"
    awaited = page.get_by_text("async def pay_async")
    assert not awaited.is_visible()
    page.locator("label.sd-tab-label", has_text="asyncio").click()
    assert awaited.is_visible()
    context.close()
