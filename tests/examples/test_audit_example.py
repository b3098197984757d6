"""examples/audit: an archive in, a folder to file out, and a changed record is named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from example_folders import Example

from tppkit import __version__

pytestmark = pytest.mark.slow

KEPT = Path(__file__).parents[1] / "evidence" / "kept-archive"
FILED = {
    "SHA256SUMS", "audit.csv", "audit.html", "audit.json", "head-of-today.txt", "summary.txt", "trust", "verdict.txt", "version.txt",
}  # fmt: skip


def test_the_commands_of_the_readme_leave_a_folder_to_file_and_name_the_changed_record(tmp_path):
    example = Example("audit", tmp_path)
    example.prepare()
    filed = example.folder / "filed"
    assert {path.name for path in filed.iterdir()} == FILED
    assert (filed / "verdict.txt").read_text() == "exit 0: all records passed\n"
    assert __version__ in (filed / "version.txt").read_text()
    assert json.loads((filed / "audit.json").read_text())["passed"] == 2
    example.run("cd filed && sha256sum --quiet -c SHA256SUMS")
    shown = example.run(" ".join(example.command("bash audit.sh demo/archive-altered")), code=1)
    assert "archive-altered line 1: failed" in shown
    assert "record.body" in (example.folder / "filed-altered" / "audit.json").read_text()
    assert filed.stat().st_mode & 0o077 == 0


def test_a_head_that_was_kept_elsewhere_shows_that_records_were_cut_off(tmp_path):
    example = Example("audit", tmp_path)
    archive = example.folder / "archive"
    shutil.copytree(KEPT, archive)
    shutil.copy(KEPT.with_name("kept-archive-root.pem"), example.folder / "root.pem")
    example.run("bash audit.sh archive root.pem before")
    shutil.copy(example.folder / "before" / "head-of-today.txt", example.folder / "head.txt")
    example.run("bash audit.sh archive root.pem again head.txt")
    last = max(archive.glob("*.jsonl"), key=lambda path: path.stat().st_size)
    lines = last.read_bytes().splitlines(keepends=True)
    last.write_bytes(b"".join(lines[:-1]))
    example.run("bash audit.sh archive root.pem cut head.txt", code=4)
    assert (example.folder / "cut" / "head.txt").read_text() == (example.folder / "head.txt").read_text()
    findings = json.loads((example.folder / "cut" / "audit.json").read_text())["findings"]
    assert [one["code"] for one in findings] == ["log.head"]


def test_wrong_arguments_and_private_keys_are_refused_before_anything_is_written(tmp_path):
    example = Example("audit", tmp_path)
    (example.folder / "exists").mkdir()
    (example.folder / "archive").mkdir()
    (example.folder / "certs").mkdir()
    shutil.copy(KEPT.with_name("kept-archive-root.pem"), example.folder / "certs" / "root.pem")
    (example.folder / "certs" / "root.key").write_text("-----BEGIN EC PRIVATE KEY-----\n")
    (example.folder / "linked").mkdir()
    (example.folder / "linked" / "root.pem").symlink_to("../certs/root.key")
    for arguments in (
        "",
        "archive root.pem",
        "archive certs/root.pem exists",
        "archive certs out",
        "archive linked out",
        "archive certs/root.pem out none",
        "absent certs/root.pem out",
    ):
        example.run(f"bash audit.sh {arguments}", code=2)
    assert "none" in example.run("bash audit.sh archive none out", code=7)
    assert not (example.folder / "out").exists()
