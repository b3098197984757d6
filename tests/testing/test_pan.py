"""The search for cards finds every form in every kind of place, has no false findings, and never shows a card."""

from __future__ import annotations

import base64
import json
import logging
import random
import resource
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote
from uuid import UUID

import httpx
import pytest

from refusals import refused
from tppkit.errors import ConfigurationError, FormatError
from tppkit.protocol.gateway import CardSecret, VaultCard
from tppkit.testing import assert_no_pan

pytestmark = pytest.mark.slow

PAN = "4929123456785676"
GROUPED = "4929 1234-5678 5676"
CVC = "0739"
CARDS = (PAN, CVC)

NUMBER_FORMS: dict[str, tuple[str, bytes]] = {
    "plain": ("digits", PAN.encode()),
    "grouped": ("digits", GROUPED.encode()),
    "grouped without breaks": ("digits", GROUPED.replace(" ", "\u00a0").encode()),
    "a float": ("digits", repr(float(PAN) * 1e9).encode()),
    "lines": ("digits", b"4929\r\n1234\n5678  5676"),
    "groups with other separators": ("digits", b"4929/1234,5678, 5676"),
    "quoted": ("digits", quote(GROUPED).encode()),
    "percent": ("percent-encoded", "".join(f"%{ord(digit):x}" for digit in PAN).encode()),
    "utf-16-le": ("UTF-16", PAN.encode("utf-16-le")),
    "utf-16-be": ("UTF-16", GROUPED.encode("utf-16-be")),
    "utf-32": ("UTF-16", PAN.encode("utf-32-le")),
    "hex": ("hexadecimal", PAN.encode().hex().encode()),
    "hex dump": ("hexadecimal", GROUPED.encode().hex(" ").encode()),
    "integer": ("integer", int(PAN).to_bytes(8, "big")),
    "little endian": ("integer", int(PAN).to_bytes(8, "little")),
    "base64 lines": ("base64", base64.encodebytes(b"x" * 50 + PAN.encode() + b"y")),
    **{f"base64 after {n}": ("base64", base64.b64encode(b"x" * n + PAN.encode() + b"yy")) for n in range(3)},
    **{f"base64 grouped after {n}": ("base64", base64.b64encode(b"x" * n + b"4929-1234-5678-5676")) for n in range(3)},
}
CODE_FORMS = {
    "alone": b"0739",
    "json": b'{"cvc":"0739","amount":1200}',
    "json number": b'{"cvc":0739}',
    "form": b"a=1&cvc=0739&b=2",
    "in a form in a url": b"return=https%3A%2F%2Fshop%3Fcvc%3D0739%26b",
    "csv": b"122030,0739,Name of holder",
    "escaped line": rb'"body: \n0739\n and more"',
    "utf-16": "code 0739 of".encode("utf-16-le"),
    "after an amount": b"paid 12.50 with 0739.",
    "before a cut": b"code 0739 ... (12 characters truncated)",
    "after a cut": b"(12 characters truncated) ... 0739 of",
}
LOOK_ALIKES = {
    "uuid": "4be1c1f4-0739-4f6f-0739-0c9b8a1c2d3e",
    "timestamp": "2026-11-23T02:23:24.0739Z",
    "log time": "2026-11-23 02:23:24,0739 ok",
    "offset": "2026-11-23T02:23:24+07:39",
    "cut uuid": "('4be1c1f4-0739 ... (539 characters truncated) ... 0739-4f6f-0739-0c9b8a1c2d3e',)",
    "cut timestamp": "2026-11-24T10:54 ... (1024 characters truncated) ... 0739+00:00",
    "amount": "0739.50 EUR, 12.0739 EUR",
    "word": "x0739 0739x 10739 07391",
    "part of the number": PAN[:6] + "******" + PAN[-4:],
    "another number": "4929123456785677 492912345678567",
    "number with other separators": "4929:1234:5678:5676",
}


def failure(*places: object, cards=CARDS) -> str:
    with pytest.raises(AssertionError) as found:
        assert_no_pan(*places, cards=cards)
    text = str(found.value)
    assert not any(secret in text for secret in (PAN, GROUPED, CVC))
    return text


@pytest.mark.parametrize("name", NUMBER_FORMS)
def test_every_form_of_a_number_is_found_in_bytes_and_at_every_offset_of_a_file(name, tmp_path):
    form, planted = NUMBER_FORMS[name]
    assert f"place 1: card 1, {form}, byte " in failure(b"\x00\xff\xfe" + planted)
    for before in (0, (1 << 20) - len(planted) // 2, (1 << 20) - 256, (1 << 20) - 257, 2 << 20):
        file = tmp_path / "log"
        file.write_bytes(b"z" * before + planted)
        place, _, offset = failure(file).splitlines()[1].rpartition(" ")
        assert place == f"{file}: card 1, {form}, byte"
        assert before <= int(offset) < before + len(planted)


@pytest.mark.parametrize("name", CODE_FORMS)
def test_every_form_of_a_code_is_found_in_texts_and_in_files(name, tmp_path):
    planted = CODE_FORMS[name]
    (tmp_path / "log").write_bytes(planted)
    assert "log: card 2, security code" in failure(tmp_path)
    assert "place 1: card 2, security code" in failure(planted.decode())


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_look_alikes_are_not_found(name, tmp_path):
    text = LOOK_ALIKES[name]
    (tmp_path / "log").write_text(f"what {text} was\n")
    assert_no_pan(text, text.encode(), text.encode("utf-16-le"), [text], tmp_path, cards=CARDS)


def test_codes_of_three_digits_are_not_found_in_random_bytes():
    assert_no_pan(random.Random(7).randbytes(2 << 20), cards=["123", "739"])


class Odd(Exception):
    def __init__(self, text: str) -> None:
        super().__init__("refused")
        self.body = {"raw": text.encode()}


def raised(text: str, *, cause: bool) -> Exception:
    try:
        try:
            raise Odd(text)
        except Odd as e:
            raise ValueError("another") from e if cause else None
    except ValueError as e:
        return e


def noted(text: str) -> Exception:
    error = ValueError("refused")
    error.add_note(text)
    return error


def record(message: str, *args: object, **extra: object) -> logging.LogRecord:
    return logging.getLogger("shop").makeRecord("shop", logging.DEBUG, "shop.py", 739, message, args, None, extra=extra)


PLACES: dict[str, Callable[[str], object]] = {
    "list": lambda secret: [[1, secret]],
    "set": lambda secret: {secret},
    "json": lambda secret: {"transactions": [{"details": {"pan": secret}}]},
    "key": lambda secret: {secret: 1},
    "deep": lambda secret: json.loads("[" * 500 + f'"{secret}"' + "]" * 500),
    "bytearray": lambda secret: bytearray(b"card " + secret.encode() + b" of"),
    "error": lambda secret: ValueError(f"no card {secret}"),
    "error's value": Odd,
    "note": noted,
    "cause": lambda secret: raised(secret, cause=True),
    "context": lambda secret: raised(secret, cause=False),
    "group": lambda secret: ExceptionGroup("two", [ValueError(1), ValueError(secret)]),
    "log message": lambda secret: record("paid with %s", secret),
    "log value": lambda secret: [record("paid", body={"pan": secret})],
    "answer": lambda secret: httpx.Response(200, json={"pan": secret}),
    "header": lambda secret: httpx.Response(200, headers={"X-Card": secret}),
    "model": lambda secret: VaultCard(vault_token=str(UUID(int=7)), truncated_pan=secret),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("secret", CARDS)
def test_every_kind_of_place_is_searched(name, secret):
    assert "place 2" in failure("nothing", PLACES[name](secret))
    assert_no_pan(PLACES[name]("4111"), cards=CARDS)


def test_numbers_of_json_are_compared_too():
    assert "place 1.pan: card 1" in failure({"pan": int(PAN)})
    assert "place 1.cvc: card 1" in failure({"cvc": 739}, cards=["739"])


def test_names_that_contain_a_card_are_masked(tmp_path):
    (tmp_path / f"card-{PAN}").mkdir()
    (tmp_path / f"card-{PAN}" / "log").write_text(PAN)
    assert "a name in " in failure(tmp_path)
    file = tmp_path / f"{PAN}.log"
    file.write_text("")
    assert "a name in " in failure(file)
    assert "place *.****************: card 1" in failure({PAN: f"card {PAN}"})


def test_values_that_do_not_show_themselves_cause_no_finding():
    assert_no_pan(record("card %s", CardSecret(PAN)), ValueError(CardSecret(PAN)), cards=[CardSecret(PAN)])


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A database whose rows are in its write-ahead log, as of a process that was killed."""
    live, left = tmp_path / "live", tmp_path / "left"
    live.mkdir()
    left.mkdir()
    with closing(sqlite3.connect(live / "shop.sqlite", isolation_level=None)) as connection:
        connection.execute("PRAGMA page_size=512")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute('CREATE TABLE "an ""order" (id INTEGER PRIMARY KEY, body, number, code, at)')
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        row = ("x" * 500 + PAN + "x" * 500, int(PAN), CVC, datetime(2026, 1, 1, tzinfo=UTC).isoformat())
        connection.execute('INSERT INTO "an ""order" (body, number, code, at) VALUES (?, ?, ?, ?)', row)
        for end in ("", "-wal"):
            (left / f"shop.sqlite{end}").write_bytes((live / f"shop.sqlite{end}").read_bytes())
    return left / "shop.sqlite"


@pytest.mark.parametrize("given", [lambda file: file, lambda file: file.parent])
def test_cells_of_a_database_and_its_write_ahead_log_are_searched(given, database):
    wal = Path(f"{database}-wal")
    kept = database.read_bytes(), wal.read_bytes()
    text = failure(given(database))
    assert (
        f'{database}, an "order.body: card 1, digits, a cell' in text
    )  # over two pages, so not in one piece in the file
    assert f'{database}, an "order.code: card 2, security code, a cell' in text
    assert f"{wal}: card 1, integer, byte " in text
    assert (database.read_bytes(), wal.read_bytes()) == kept


def test_a_deleted_row_is_found_in_the_file_and_searching_leaves_no_file_behind(tmp_path):
    file = tmp_path / "shop.sqlite"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA secure_delete=OFF")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE orders (body)")
        connection.execute("INSERT INTO orders VALUES (?)", (f"{{'pan': {PAN}}}",))
        connection.execute("DELETE FROM orders")
        connection.commit()
    assert failure(tmp_path).splitlines()[1].startswith(f"{file}: card 1, digits, byte ")
    assert [path.name for path in tmp_path.iterdir()] == ["shop.sqlite"]


def test_a_database_that_is_open_is_searched_and_stays_usable(tmp_path):
    with closing(sqlite3.connect(tmp_path / "shop.sqlite", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE orders (body BLOB)")
        assert_no_pan(tmp_path, cards=CARDS)
        connection.execute("INSERT INTO orders VALUES (?)", (b"\xff card " + CVC.encode() + b" of\xff",))
        assert "orders.body: card 2, security code, a cell" in failure(tmp_path)


def test_a_damaged_database_is_not_a_clean_one(tmp_path):
    (tmp_path / "shop.sqlite").write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    with refused(FormatError, "file.unreadable"):
        assert_no_pan(tmp_path, cards=CARDS)


def test_memory_stays_flat_over_a_big_file(tmp_path):
    file = tmp_path / "log"
    with file.open("wb") as written:
        written.truncate(64 << 20)
        written.seek(0, 2)
        written.write(PAN.encode())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert f"byte {64 << 20}" in failure(file)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000  # KiB


@pytest.mark.parametrize(
    ("places", "cards"),
    [
        ([], CARDS), (["text"], []), (["text"], ["41111"]), (["text"], ["4929 1234 5678 5676"]), ([object()], CARDS),
        ([__file__], CARDS), ([iter(["text"])], CARDS),
    ],
)  # fmt: skip
def test_a_search_that_could_find_nothing_is_refused(places, cards):
    with refused(ConfigurationError, "pan.search"):
        assert_no_pan(*places, cards=cards)


def test_a_file_that_is_absent_is_refused(tmp_path):
    with refused(FormatError, "file.unreadable"):
        assert_no_pan(tmp_path / "absent", cards=CARDS)
