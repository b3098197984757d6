"""Check the pages of a built site: every link and anchor exists, and nothing is loaded from elsewhere.

    python tools/check_site.py site/latest [--add-anchors]

docs/anchors.txt has the addresses that were published: of headings, Python names, codes and assumptions. They stay, so that links from
elsewhere do. `--add-anchors` adds those of the site; nothing removes one.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ANCHORS = Path(__file__).parents[1] / "docs/anchors.txt"
LOADS = {"audio", "embed", "iframe", "img", "link", "object", "script", "source", "track", "video"}


class Page(HTMLParser):
    """The anchors of a page, and where its links lead."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = {""}
        self.repeated: set[str] = set()
        self.links: set[tuple[str, str]] = set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Called for each tag."""
        for name, value in attrs:
            if name == "id" and value:
                self.repeated |= {value} & self.anchors
                self.anchors.add(value)
            elif name in ("href", "src", "data", "action", "poster") and value is not None:
                self.links.add((tag, value))


def problems(folder: Path) -> Iterator[str]:
    """What is wrong, one line each."""
    pages = {path: Page(path) for path in sorted(folder.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(folder)
        yield from (f"{name}: the id {anchor} occurs twice" for anchor in sorted(page.repeated))
        for tag, link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme == "data":
                continue
            if parts.scheme or parts.netloc:
                if tag in LOADS:
                    yield f"{name}: loads {link}"
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                yield f"{name}: no file {link}"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{name}: no anchor {link}"
    for path in sorted(folder.rglob("*.css")):
        if re.search(r"""url\(\s*["']?(https?:)?//|@import""", path.read_text("utf-8")):
            yield f"{path.relative_to(folder)}: loads from elsewhere"


def search_rows(folder: Path) -> list[tuple[str, str, str, str]]:
    """What the search finds: address, title, page, text."""
    text = (folder / "_static/search-rows.js").read_text("utf-8")
    return [tuple(row) for row in json.loads(text.removeprefix("window.searchRows = ").removesuffix(";\n"))]


def add_anchors(folder: Path, anchors: Path) -> None:
    """Add the addresses that the search finds, without those that Sphinx numbers."""
    found = {address for address, *_ in search_rows(folder) if not re.search(r"#id\d+$", address)}
    known = anchors.read_text("utf-8").splitlines() if anchors.exists() else []
    anchors.write_text("".join(f"{one}\n" for one in sorted(found.union(known))), "utf-8")


def lost_anchors(folder: Path, anchors: Path) -> list[str]:
    """The published addresses that the site no longer has."""
    lost, pages = [], dict[str, set[str]]()
    for address in anchors.read_text("utf-8").splitlines():
        name, _, anchor = address.partition("#")
        if name not in pages:
            pages[name] = Page(folder / name).anchors if (folder / name).is_file() else set()
        if anchor not in pages[name]:
            lost.append(address)
    return lost


def main() -> int:
    """Print what is wrong."""
    folder = Path(sys.argv[1]).resolve()
    if sys.argv[2:] == ["--add-anchors"]:
        add_anchors(folder, ANCHORS)
    found = [
        *problems(folder),
        *(f"{address}: was published, and is gone" for address in lost_anchors(folder, ANCHORS)),
    ]
    print("\n".join(found) or "no problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
