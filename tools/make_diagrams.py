"""Draw the Mermaid diagrams of the pages in docs: two pictures each in docs/pictures/diagrams, named by the hash of the source.

    python tools/make_diagrams.py

Drawing needs Chromium and npm, which fetches Mermaid. The site is built from the pictures alone.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from digests import digest

DOCS = Path(__file__).parents[1] / "docs"
FOLDER = DOCS / "pictures/diagrams"
BLOCK = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MERMAID = "mermaid@11.17.2"
THEMES = {"light": "neutral", "dark": "dark"}
# Plain text instead of HTML in the SVG, so that `<img>` shows it. The width is that of the view box, not of the page.
DRAW = """async ([source, theme]) => {
  mermaid.initialize({startOnLoad: false, theme, deterministicIds: true, htmlLabels: false, flowchart: {htmlLabels: false},
                      fontFamily: "DejaVu Sans, sans-serif"});
  const {svg} = await mermaid.render("diagram", source);
  const [, , width, height] = svg.match(/viewBox="([^"]*)"/)[1].split(" ");
  return svg.replace(/width="100%"/, `width="${Math.ceil(width)}" height="${Math.ceil(height)}"`);
}"""


def sources() -> dict[str, str]:
    """The text of each diagram by its name."""
    texts = [
        block.rstrip("\n") for page in sorted(DOCS.rglob("*.md")) for block in BLOCK.findall(page.read_text("utf-8"))
    ]
    return {digest(text): text for text in texts}


def main() -> int:
    """Draw what is missing, and remove what is left over."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    wanted = {FOLDER / f"{name}-{scheme}.svg": (text, scheme) for name, text in sources().items() for scheme in THEMES}
    for old in {*FOLDER.iterdir()} - {*wanted}:
        old.unlink()
    missing = {path: what for path, what in wanted.items() if not path.exists()}
    if not missing:
        return 0
    chromium, npm = shutil.which("chromium"), shutil.which("npm")
    if chromium is None or npm is None:
        print("chromium or npm is not installed", file=sys.stderr)
        return 3
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        subprocess.run([npm, "pack", "--silent", MERMAID], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        shutil.unpack_archive(next(Path(folder).glob("*.tgz")), folder, filter="data")
        browser = driver.chromium.launch(executable_path=chromium, chromium_sandbox=os.geteuid() != 0)
        for path, (text, scheme) in missing.items():
            page = browser.new_page()
            page.add_script_tag(path=Path(folder, "package/dist/mermaid.min.js"))
            path.write_text(page.evaluate(DRAW, [text, THEMES[scheme]]) + "\n", "utf-8")
            print(path)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
