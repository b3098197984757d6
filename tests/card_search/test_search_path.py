"""Archives, databases and compressed files are searched, also within each other; hostile ones are skipped with a reason."""

from __future__ import annotations

import bz2
import gzip
import io
import os
import sqlite3
import tarfile
import zipfile
from contextlib import closing
from pathlib import Path

import pytest

from tppkit.card_search import files
from tppkit.card_search.files import Place, Skipped, search_path
from tppkit.card_search.forms import AnyCard, CardForms

PAN = "4929123456785676"
FORMS = CardForms([PAN, "0739"])
SECRET = b"paid with " + PAN.encode()


def gz(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def zipped(data: bytes, name: str = "shop.log", **options) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, data)
    return file.getvalue()


def tarred(data: bytes, name: str = "shop.log") -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    return file.getvalue()


def old_tar(data: bytes) -> bytes:
    """A tar file in the form before POSIX: no mark, and no fields after the name of a link."""
    whole = bytearray(tarred(data))
    whole[257:512] = bytes(255)
    whole[148:156] = b"%06o\0 " % (sum(whole[:148]) + 8 * 32 + sum(whole[156:512]))
    return bytes(whole)


def database(data: bytes) -> bytes:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("PRAGMA page_size=512")
        connection.execute("CREATE TABLE orders (body)")
        connection.execute("INSERT INTO orders VALUES (?)", ("x" * 500 + data.decode() + "x" * 500,))
        connection.commit()
        whole = connection.serialize()
    return whole[:18] + b"\2\2" + whole[20:]  # as of a database with a write-ahead log


def search(folder: Path, content: bytes, *, name: str = "file", forms=FORMS) -> tuple[list[str], list[tuple[str, str]]]:
    """What was found and skipped, without the folder."""
    (folder / name).write_bytes(content)
    prefix = f"{folder}/"
    results = [*search_path(folder, forms)]
    found = [
        f"{one.name.removeprefix(prefix)}: {hit.form}"
        for one in results
        if isinstance(one, Place)
        for hit, _ in one.hits
    ]
    return found, [(one.why, one.reason) for one in results if isinstance(one, Skipped)]


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (gz(SECRET), "file: unpacked"),
        (b"#!/bin/sh\n" + b"exit\n" * 200 + zipped(gz(SECRET)), "file: shop.log: unpacked"),
        (tarred(b"PK00" + zipped(SECRET)), "file: shop.log: shop.log"),
        (zipped(b"PK\x07\x08" + zipped(SECRET)), "file: shop.log: shop.log"),
        (old_tar(gz(SECRET)), "file: shop.log: unpacked"),
        (gz(old_tar(gz(SECRET))), "file: unpacked: shop.log: unpacked"),
        (gz(b"x") + gz(SECRET), "file: unpacked"),
        (zipped(SECRET), "file: shop.log"),
        (tarred(SECRET), "file: shop.log"),
        (gz(tarred(gz(SECRET))), "file: unpacked: shop.log: unpacked"),
        (zipped(zipped(SECRET)), "file: shop.log: shop.log"),
        (tarred(database(SECRET)), "file: shop.log, orders.body"),
        (gz(tarred(b"x") + b"\0" * 1024 + tarred(SECRET)), "file: unpacked: after its end"),
        (gz(tarred(zipped(gz(SECRET)))), "file: unpacked: shop.log: shop.log: unpacked"),
    ],
)
def test_a_card_is_found_in_archives_within_archives(content, place, tmp_path):
    found, skipped = search(tmp_path, content)
    assert f"{place}: digits" in found
    assert skipped == []


def test_a_second_member_and_names_of_members_are_searched(tmp_path):
    with tarfile.open(tmp_path / "file", "w") as archive:
        for name, data in (("a" * 200, b"x" * 700), (PAN, b"0739")):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    found, skipped = search(tmp_path, gz((tmp_path / "file").read_bytes()))
    assert [place.rpartition("/")[2] for place in found] == [
        "file: unpacked: digits",
        "file: unpacked: ****************: security code",
    ]
    assert skipped == []


def patched(at: int, value: int) -> bytes:
    """A zip file with another byte in the list of its members."""
    data = bytearray(zipped(SECRET))
    data[data.index(b"PK\x01\x02") + at] = value
    return bytes(data)


def encrypted() -> bytes:
    data = bytearray(zipped(SECRET))
    data[data.index(b"PK\x01\x02") + 8] |= 1
    return bytes(data)


DEEP = SECRET
for _ in range(files.MAX_DEPTH + 1):
    DEEP = gz(DEEP)


@pytest.mark.parametrize(
    ("content", "why", "reason"),
    [
        (bz2.compress(SECRET), "unsupported", "bzip2 is not unpacked"),
        (tarred(bz2.compress(SECRET)), "unsupported", "bzip2 is not unpacked"),
        (gz(b"MZ" * 999 + zipped(SECRET)), "unsupported", "a zip file behind other data, in an archive"),
        (encrypted(), "unsupported", "encrypted, or not deflated"),
        (DEEP, "unsupported", "an archive in 4 others"),
        (gz(SECRET)[:-9], "unreadable", "damaged: EOFError"),
        (patched(6, 200), "unreadable", "damaged: NotImplementedError"),
        (patched(8, 0x20), "unreadable", "damaged: NotImplementedError"),
        (zipped(SECRET)[:-9], "unreadable", "damaged: BadZipFile"),
        (tarred(SECRET)[:520], "unreadable", "damaged: EOFError"),
        (tarred(SECRET)[:124] + b"-0000000001\0" + tarred(SECRET)[136:], "unreadable", "damaged: EOFError"),
        (tarred(SECRET)[:124] + b"no number!!\0" + tarred(SECRET)[136:], "unreadable", "damaged: ValueError"),
        (gz(b"SQLite format 3\0" + b"\xff" * 999), "unreadable", "a SQLite database that cannot be read: file is not a database"),
        (b"PK\x03\x04" + b"PK\x06\x07" + bytes(16) + b"PK\x05\x06" + bytes(18), "unsupported", "a ZIP64 file"),
        (b"PK\x03\x04" + b"PK\x05\x06" + b"\xff" * 18, "unsupported", "too many members"),
    ],
)  # fmt: skip
def test_what_cannot_be_searched_is_named_with_the_reason(content, why, reason, tmp_path):
    _, skipped = search(tmp_path, content)
    assert skipped == [(why, reason)]


@pytest.mark.parametrize("pack", [gz, zipped, tarred])
def test_the_limits_hold_for_all_that_a_file_contains(pack, tmp_path, monkeypatch):
    bomb = pack(gz(bytes(3_000_000)))
    _, skipped = search(tmp_path, bomb)
    assert skipped == []
    monkeypatch.setattr(files, "MAX_UNPACKED_BYTES", 2_000_000)
    _, skipped = search(tmp_path, bomb)
    assert skipped == [("unsupported", "more than 2000000 bytes unpacked")]


def test_a_member_that_zipfile_would_unpack_in_one_piece_is_not_searched(tmp_path):
    with zipfile.ZipFile(tmp_path / "small", "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("large", bytes(1_000_000))
    content = (tmp_path / "small").read_bytes()
    assert search(tmp_path, content, name="small") == ([], [("unsupported", "encrypted, or not deflated")])


def test_a_value_that_a_database_computes_is_limited(tmp_path):
    with closing(sqlite3.connect(tmp_path / "db")) as connection:
        connection.execute("CREATE TABLE t (a, b AS (zeroblob(900000000)))")
        connection.execute("INSERT INTO t (a) VALUES (1)")
        connection.commit()
    assert search(tmp_path, (tmp_path / "db").read_bytes(), name="db")[1] == [
        ("unreadable", "a SQLite database that cannot be read: string or blob too big")
    ]


def test_members_are_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_MEMBERS", 0)
    assert [reason for _, reason in search(tmp_path, zipped(SECRET))[1]] == ["more than 0 members or 1073741824 bytes"]


def test_links_and_special_files_are_named(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/etc/passwd")
    assert search(tmp_path, b"")[1] == [("link", "a link or special file")] * 2


@pytest.mark.parametrize(
    "text",
    [
        "4111111111111111", "pan=4111 1111 1111 1111.", "12 4111 1111 1111 1111 30", '{"pan":4111111111111111}', "4111-1111-1111-1111",
        "4111.1111.1111.1111", "4111/1111/1111/1111", "4111  1111  1111  1111", "4111\u00a01111\u00a01111\u00a01111",
        "4111%201111%201111%201111", "3782_822463_10005", "3782 822463 10005",
        "378282246310005", "5555555555554444", "6304000000000000", "4222222222222",
    ],
)  # fmt: skip
def test_any_card_is_found_by_its_range_and_check_digit(text):
    for data in (text.encode(), text.encode("utf-16-le"), b"\xfe\xff" + text.encode("utf-16-be")):
        (hit,) = AnyCard().in_bytes(data)
        assert "***" in hit.card
    (hit,) = AnyCard().in_text(text)
    assert data.decode("latin-1").replace("\0", "")[2 + hit.offset].isdigit()


@pytest.mark.parametrize(
    "text",
    [
        "4111111111111112",
        "1111111111111117",
        "14111111111111111",
        "41111111111111111",
        "4111 1111-1111 1111",
        "411111******1111",
        "4111,1111,1111,1111",
        "4111\t1111\t1111\t1111",
    ],
)
def test_other_numbers_are_no_cards(text):
    assert [*AnyCard().in_text(text)] == []


def test_any_card_is_found_at_every_offset_of_a_file(tmp_path):
    for before in ((1 << 20) - 8, (1 << 20) - 256, (1 << 20) - 257):
        found, _ = search(tmp_path, b"z" * before + b"4111111111111111", forms=AnyCard())
        assert found == ["file: digits"]
