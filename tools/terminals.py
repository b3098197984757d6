"""Terminals for the pages in docs: what commands print, with the colours of a terminal, as SVG."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from datetime import UTC, date, datetime
from pathlib import Path
from uuid import UUID

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from tppkit.evidence import EvidenceArchive, make_record
from tppkit.seals import KeySigner, Message, Seal, SealPolicy, sign_request, verify_request
from tppkit.testpki import certificate_pem, make_pki, write_pki
from tppkit.trust import PathVerifier, make_anchors

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)
COLUMNS = {"terminal-demo.svg": 100}
WIDE = 126  # columns of the others
FIRST, LAST = 33, 7  # lines of a picture; what is between them is left out
# Background, text, and the eight colours of a terminal, each with a contrast of at least 4.5 to the background. Dimmed text has it too,
# if it has no colour.
THEME = TerminalTheme(
    (30, 30, 30),
    (235, 235, 235),
    [
        (150, 150, 150), (244, 128, 128), (160, 200, 100), (224, 192, 96), (120, 176, 240), (208, 160, 224),
        (112, 200, 208), (235, 235, 235),
    ],
)  # fmt: skip
FORMAT = """<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font: {char_height}px/{line_height}px "DejaVu Sans Mono", Menlo, Consolas, monospace; }}
.{unique_id}-title {{ font: bold 18px sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect width="{terminal_width}" height="{terminal_height}"/></clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
TERMINALS: dict[str, tuple[str, ...]] = {
    "terminal-demo.svg": ("tppkit demo --dir demo",),
    "terminal-cert-check.svg": (
        "tppkit cert check certs/qwac.pem --as qwac --trust certs --at 2026-06-01T12:00:00Z",
        "tppkit cert check certs/qwac.pem --as qwac --trust certs --at 2028-01-01T12:00:00Z",
    ),
    "terminal-seal-diagnose.svg": ("tppkit seal diagnose request.http",),
    "terminal-audit-verify.svg": (
        "tppkit audit verify evidence --trust authorities.pem",
        "tppkit audit verify changed --trust authorities.pem",
    ),
}
# What differs in each run: of the audit, and of the demo.
ALWAYS = [
    (re.compile(r"(?<= leaf )[0-9a-f]{64}"), "…"),
    (re.compile(r"^\d+\.\d+ s, \d+ records/s\n", re.MULTILINE), ""),
    (re.compile(r"\r[^\n]*?\x1b\[K"), ""),  # progress, which only a slow run prints
]
MASKS = [
    (re.compile(r"(?<![\w-])(?=[\w-]*\d)[\w-]{32,}(?![\w-])"), "…"),
    (re.compile(r"(?<=localhost:)\d+"), "8443"),
    (re.compile(r"(?<=Byte )\d+"), "938"),
    (re.compile(r"\d+\.\d\d(?= (USD|GBP))"), "400.00"),
    (re.compile(r"(?<= and )\d{4}(?=\.)"), "4711"),
    (re.compile(r"(?<=T| )\d\d:\d\d:\d\d(\.\d+)?"), "12:00:00"),
]
DATE = re.compile(r"\d{4}-\d\d-\d\d")


def prepare(folder: Path) -> None:
    """Write the files of the commands: certificates, a request, an archive and one that was changed."""
    pki = make_pki(at=AT, seed=1)
    write_pki(pki, folder / "certs")
    (folder / "authorities.pem").write_bytes(b"".join(map(certificate_pem, pki.authorities)))
    seal, policy = (
        Seal(pki.qseal.certificate, KeySigner(pki.qseal.key)),
        SealPolicy(PathVerifier(make_anchors(pki.authorities))),
    )
    body = b'{"instructedAmount": {"currency": "EUR", "amount": "12.50"}, "creditorName": "Bookshop"}'
    for name in ("evidence", "changed"):
        with EvidenceArchive(folder / name, stream_id="5a" * 16) as archive:
            for number in range(3):
                headers = (("X-Request-ID", str(UUID(int=number))), ("Content-Type", "application/json"))
                sent = sign_request(
                    Message("POST", "/psd2/v1/payments/sepa-credit-transfers", headers, body), seal=seal
                )
                verified = verify_request(sent, qwac=pki.qwac.certificate, at=AT, policy=policy)
                archive.append(make_record(verified, http_status=201), *verified.chain, verified.qwac)
    records = folder / "changed/records.jsonl"
    first, *others = records.read_text("utf-8").splitlines(keepends=True)
    records.write_text(first + others[0].replace('"http_status":201', '"http_status":401', 1) + others[1], "utf-8")
    head = "".join(f"{name}: {value}\r\n" for name, value in sent.headers)
    sent_body = body.replace(b'": ', b'":').replace(b', "', b',"')
    (folder / "request.http").write_bytes(f"POST {sent.target} HTTP/1.1\r\n{head}\r\n".encode() + sent_body)


def run(command: str, folder: Path, *, columns: int = WIDE) -> str:
    """What a command prints to a terminal."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {"PATH": path, "TERM": "xterm-256color", "LANG": "C.UTF-8", "HOME": str(folder)}
    done = subprocess.Popen(
        [shutil.which("bash") or "bash", "-c", command], cwd=folder, env=environment, stdin=its, stdout=its, stderr=its
    )
    os.close(its)
    printed = b""
    try:
        while chunk := os.read(ours, 65536):
            printed += chunk
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    done.wait()
    return printed.decode().replace("\r\n", "\n")


def shown(name: str) -> str:
    """The text of a terminal, which is the source of its picture."""
    today = datetime.now(UTC).date()
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        text = "\n".join(
            f"$ {command}\n{run(command, Path(folder), columns=COLUMNS.get(name, WIDE))}" for command in TERMINALS[name]
        )
    if datetime.now(UTC).date() != today:  # its dates are of either day
        return shown(name)
    text = masked(text, today=today if "demo" in name else None)
    lines = text.rstrip("\n").split("\n")
    return "\n".join([*lines[:FIRST], "       …", *lines[-LAST:]] if len(lines) > FIRST + LAST else lines)


def masked(text: str, *, today: date | None) -> str:
    """What is the same in each run; that of the demo depends on the day too."""
    for pattern, instead in [*ALWAYS, *(MASKS if today else ())]:
        text = pattern.sub(instead, text)
    return DATE.sub(lambda found: str(AT.date() + (date.fromisoformat(found[0]) - today)), text) if today else text


def svg(name: str, text: str) -> str:
    """Draw a terminal."""
    console = Console(
        record=True, width=COLUMNS.get(name, WIDE), file=io.StringIO(), force_terminal=True, legacy_windows=False
    )
    console.print(Text.from_ansi(text))
    return console.export_svg(title="tppkit", theme=THEME, code_format=FORMAT, unique_id="terminal")
