"""Browser helpers: forms of screens, actions in a page, findings of axe, and the site of a merchant or provider."""

from __future__ import annotations

from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

DESKTOP = {"viewport": {"width": 1200, "height": 850}}
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
DARK = {**PHONE, "color_scheme": "dark"}
WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


class Provider(ThreadingHTTPServer):
    """The provider's own site: its page with an iframe, and where customers return."""

    daemon_threads = True
    frame = ""

    def __init__(self) -> None:
        self.visits: list[str] = []
        super().__init__(("127.0.0.1", 0), _Site)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Site(BaseHTTPRequestHandler):
    server: Provider

    def do_GET(self) -> None:
        frame = (
            f"<iframe src='{self.server.frame}' width=420 height=800 title=bank></iframe>"
            if self.path == "/shop"
            else ""
        )
        self.server.visits += [self.path] if self.path.startswith("/back") else []
        body = f"<!doctype html><title>provider</title>{self.path}{frame}".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with suppress(OSError):
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None: ...


def press(page: Any, name: str) -> None:
    page.get_by_role("button", name=name).click()


def heading(page: Any) -> str:
    return str(page.get_by_role("heading", level=1).inner_text())


def require_accessible(page: Any, picture: Path) -> None:
    """What axe finds, and whether the page fits the screen; with a picture."""
    page.screenshot(path=picture, full_page=True)
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="needs axe-playwright-python; install the extra dev"
    )
    found = axe.Axe().run(page, options={"runOnly": WCAG})
    assert not found.response["violations"], found.generate_report()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (
        f"{picture.stem} is wider than the screen"
    )
