"""`tppkit pan scan` for an assessor."""

from __future__ import annotations

import gzip
import json

import pytest
from click.testing import CliRunner

from tppkit.cli.main import main


# `CliRunner` drops what a command returns: exit codes are the results.
def scan(*arguments, input=None) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["pan", "scan", *map(str, arguments)], input=input, standalone_mode=False)
    assert done.exception is None, done.exception
    return done.return_value, done.stdout


@pytest.mark.parametrize(
    ("content", "options", "code", "card"),
    [
        (b"4111111111111111", (), 1, "card 1"),
        (b"4929123456785676", (), 0, None),
        (b"4012000033330026", ("--any",), 1, "visa 401200******0026"),
        (b"34393239313233343536373835363736", ("--cards", "-"), 1, "card 1"),
    ],
)
def test_a_scan_lists_what_it_found_and_searched(content, options, code, card, tmp_path):
    (tmp_path / "log.gz").write_bytes(gzip.compress(content))
    exit_code, text = scan(tmp_path, *options, "--json", input="4929123456785676\n")
    value = json.loads(text)
    assert exit_code == code
    assert [one["card"] for one in value["found"]] == ([card] if card else [])
    assert value["searched"] == [f"{tmp_path}/log.gz", f"{tmp_path}/log.gz: unpacked"]
    assert not any(number in text for number in ("4929123456785676", "4012000033330026", "4111111111111111"))


def test_what_could_not_be_searched_gives_3_and_a_line(tmp_path):
    (tmp_path / "log.xz").write_bytes(b"\xfd7zXZ\0")
    code, text = scan(tmp_path, "--any")
    assert code == 3
    assert f"not searched: {tmp_path}/log.xz: xz is not unpacked" in text.splitlines()
    assert scan(tmp_path / "absent")[0] == 3


def test_links_leave_the_exit_code_alone(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    assert scan(tmp_path)[0] == 0
