"""The table of limits in docs/reference/limits.md has the values that the code has."""

from __future__ import annotations

import re
from datetime import timedelta
from importlib import import_module
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs/reference/limits.md"
UNITS = {"KiB": 1024, "MiB": 1024**2, "million": 10**6, "hour": 3600}
NUMBER = re.compile(rf"([\d,]*\d)(?: ({'|'.join(UNITS)}))?")

# The first words of each row, and the constants of its numbers in their order.
LIMITS = {
    "a certificate": (
        "certificates.certificate:MAX_CERTIFICATE_BYTES", "certificates.sources:MAX_SOURCE_BYTES",
        "certificates.sources:MAX_CERTIFICATES", "certificates.certificate:_REMEMBERED",
        "certificates.certificate:_REMEMBERED_BYTES",
    ),
    "Signature header": (
        "httpsig.cavage:MAX_HEADER_LENGTH", "seals.certificate_header:MAX_CERTIFICATE_HEADER", "httpsig.digest:MAX_DIGEST_LENGTH",
    ),
    "a structured field": ("httpsig.structured:MAX_FIELD_LENGTH", "httpsig.jws:MAX_JWS_LENGTH"),
    "a form whose file is sealed": ("seals.form_data:MAX_PARTS", "seals.form_data:MAX_PART_HEADERS_BYTES"),
    "a proxy's header with a certificate": ("web.proxies:MAX_HEADER", "web.caller:MAX_CHAIN"),
    "the replay guard's memory": ("web.replay_stores.memory:MAX_BYTES", "web.replay:MAX_ANSWER_BYTES"),
    "a request body of the PSD2 interface": ("protocol.wire:MAX_BODY_BYTES", "_encoding:MAX_JSON_DEPTH"),
    "a path": ("protocol.endpoint:MAX_PATH", "protocol.endpoint:MAX_QUERY_NAMES"),
    "jobs that share a commit": (
        "sql.transaction:MAX_BATCH", "sql.transaction:BUSY_TIMEOUT_S", "sandbox.database:WAIT_S",
    ),
    "a chain": ("trust.path.candidates:MAX_CHAIN_DEPTH",),
    "a request's head": ("sandbox.http1:MAX_HEAD_BYTES", "sandbox.http1:REQUEST_TIMEOUT_S"),
    "a callback: body": (
        "protocol.wire:MAX_BODY_BYTES", "callbacks.addresses:MAX_TARGET", "callbacks.verify:MAX_HEADERS",
        "callbacks.verify:MAX_KEYS",
    ),
    "a callback under ASGI": ("web.receiving.gate:TIMEOUT_S", "web.threads:THREADS"),
    "an answer to `callback send`": (
        "cli.callback_send:_MAX_ANSWER_BYTES", "cli.callback_send:TIMEOUT_S", "cli.callback_send:_SHOWN",
        "cli.callback_listen:MAX_KEPT",
    ),
    "an answer that the client reads": ("client.answers:MAX_ANSWER_BYTES", "client.connections:DEFAULT_TIMEOUT_S"),
    "a JSON array in a body": ("protocol.wire:MAX_ARRAY_BYTES", "protocol.reports:MAX_RECORD_BYTES"),
    "reports that a host sends at a time": ("sandbox.database:MAX_STREAMS", "sandbox.cell:DEADLINE_S"),
    "request ids that a client remembers": ("client.credentials:MAX_CHANGING", "client.credentials:MAX_READING"),
    "a record of evidence": (
        "evidence.columns:MAX_LINE_BYTES", "evidence.outbox:_REMEMBERED", "evidence.outbox:_MAX_READ_BYTES",
    ),
    "answers about revocation": ("evidence.files:MAX_ANSWERS", "trust.revocation.revocation_list:MAX_CRL_BYTES"),
    "attempts of deliveries under way": (
        "sandbox.deliveries:AT_ONCE", "sandbox.deliveries:AT_ONCE_TO_ONE", "sandbox.deliveries:DUE_AT_ONCE",
    ),
    "an answer to what the sandbox calls": ("sandbox.outgoing_http:MAX_ANSWER_BYTES", "sandbox.outgoing_http:MAX_ADDRESSES"),
    "requests that the inspector": (
        "sandbox.latest_requests:MAX_REQUESTS", "sandbox.latest_requests:MAX_BYTES", "sandbox.exchange:MAX_KEPT_BYTES",
        "sandbox.inspector:MAX_READERS",
    ),
    "a HAR file": (
        "cli.har_file:MAX_HAR_BYTES", "cli.har_file:MAX_ENTRIES", "cli.curl_command:MAX_COMMAND_LENGTH",
        "seals.diagnose.bodies:MAX_CHANGED_BYTES",
    ),
    "repeated log lines": ("web.log:_MAX_KEYS", "web.log:_MAX_IDS", "web.log:_MAX_TARGET"),
    "card numbers": (
        "card_search.files:MAX_DEPTH", "card_search.files:MAX_UNPACKED_BYTES", "card_search.files:MAX_HELD_BYTES",
        "card_search.files:MAX_MEMBERS",
    ),
    "the text of a QR code": (
        "qr.characters:MAX_TEXT_BYTES", "qr.reading:MAX_PICTURE_BYTES", "qr.reading:MAX_PICTURE_PIXELS",
        "qr.picture_file:_MAX_SCANS",
    ),
}  # fmt: skip


def numbers(cell: str) -> list[float]:
    """The numbers of a cell in bytes, seconds or pieces."""
    text = cell.replace("an hour", "1 hour")
    return [float(digits.replace(",", "")) * UNITS.get(unit, 1) for digits, unit in NUMBER.findall(text)]


def value(name: str) -> float:
    """The value of `module:NAME` in `tppkit`."""
    module, _, path = name.partition(":")
    found = getattr(import_module(f"tppkit.{module}"), path)
    return found.total_seconds() if isinstance(found, timedelta) else float(found)


def test_the_page_has_the_limits_of_the_code():
    rows = [line.strip("| ").split(" | ") for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")][1:]
    assert len(rows) == len(LIMITS)
    for (what, cell), (begin, constants) in zip(rows, LIMITS.items(), strict=True):
        assert what.startswith(begin)
        assert numbers(cell) == [value(one) for one in constants], what
