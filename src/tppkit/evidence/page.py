"""The parts of a page that a person reads and files: one HTML file without scripts and without links to other servers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from tppkit._text import printable

STYLE = """
body{font:15px/1.45 system-ui,sans-serif;color:#1b1f24;max-width:64rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin-bottom:.2rem}
h2{font-size:1.15rem;margin-top:2rem;border-bottom:1px solid #c8ced6;padding-bottom:.2rem}
table{border-collapse:collapse;width:100%;margin:.6rem 0}
th,td{text-align:left;padding:.25rem .6rem;border-bottom:1px solid #e3e7ec;vertical-align:top}
td{overflow-wrap:anywhere}td.k{white-space:nowrap}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
td,li,p,b,code,pre{unicode-bidi:isolate}
code,pre{font:13px/1.4 ui-monospace,monospace;overflow-wrap:anywhere;white-space:pre-wrap}
.verdict{font-size:1.15rem;padding:.6rem .8rem;border-left:6px solid;margin:1rem 0}
.holds{border-color:#1a7f37;background:#eaf6ec}.open{border-color:#9a6700;background:#fdf6e3}
.fails{border-color:#b42318;background:#fdecea}.numbers{display:flex;flex-wrap:wrap;gap:.6rem}
.numbers div{border:1px solid #d5dae1;padding:.4rem .8rem;min-width:7rem}
.numbers b{display:block;font-size:1.3rem;font-variant-numeric:tabular-nums}.small{color:#57606a;font-size:13px}
.sign td{height:2.2rem;width:75%}details{margin:.4rem 0}svg{max-width:100%}
@media print{body{margin:0;max-width:none;font-size:10pt}table{font-size:8.5pt}h2{break-after:avoid}tr,svg,.verdict{break-inside:avoid}}
"""
_SHORT = 26  # characters


def chart(names: Sequence[str], numbers: Sequence[int], colour: str) -> str:
    """Return a chart with a column for each month, its number above."""
    width, height, top = 44, 120, max(numbers) or 1
    parts = [f"<svg width={width * len(names)} height={height + 40} role=img>"]
    for place, (name, number) in enumerate(zip(names, numbers, strict=True)):
        tall = round(height * number / top)
        x = place * width
        parts.append(f"<rect x={x + 6} y={height + 16 - tall} width={width - 12} height={tall} fill='{colour}'/>")
        parts.append(
            f"<text x={x + width / 2} y={height + 12 - tall} font-size=10 text-anchor=middle>{number:,}</text>"
        )
        parts.append(f"<text x={x + width / 2} y={height + 30} font-size=9 text-anchor=middle>{text(name)}</text>")
    return "".join([*parts, "</svg>"])


def table(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table, or `None.` without rows. Numbers are aligned to the right, and short words are not broken."""
    lines = []
    for row in rows:
        lines.append("<tr>" + "".join(map(_cell, row)) + "</tr>")
        kinds = [isinstance(cell, int) for cell in row]
    if not lines:
        return "<p>None.</p>"
    heads = (f"<th{' class=n' if kinds[at] else ''}>{text(name)}</th>" for at, name in enumerate(names))
    return "\n".join(["<table><tr>" + "".join(heads) + "</tr>", *lines, "</table>"])


def _cell(cell: object) -> str:
    if isinstance(cell, int):
        return f"<td class=n>{cell:,}</td>"
    shown = str(cell)
    return f"<td{' class=k' if len(shown) <= _SHORT and ' ' not in shown else ''}>{text(shown)}</td>"


def text(value: object) -> str:
    """Return a text for HTML. What a peer chose can neither become markup nor change the direction of what stands beside it."""
    return escape(printable(str(value)))


def lines_of(value: str) -> str:
    """Return a text of several lines for HTML, in a fixed width."""
    return "<pre>" + "\n".join(text(line) for line in value.split("\n")) + "</pre>"


def listed(lines: Iterable[str]) -> Iterator[str]:
    """Yield a list of texts."""
    yield "<ul>"
    for line in lines:
        yield f"<li>{text(line)}</li>"
    yield "</ul>"


def count(number: int, one: str, several: str) -> str:
    """Return a number with its noun."""
    return f"{number:,} {one if number == 1 else several}"
