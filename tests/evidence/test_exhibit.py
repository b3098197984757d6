"""One record as a bundle: bash and openssl verify it alone, and every change of it is found."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tppkit.errors import ArchiveError, FormatError
from tppkit.evidence import EvidenceArchive, make_record
from tppkit.evidence.exhibit import examine, write_bundle
from tppkit.evidence.lookup import find_record, find_records, prove_place
from tppkit.evidence.sealing import seal_archive
from tppkit.evidence.tree import root_from_path

NEXT_DAY = datetime(2026, 6, 2, 12, 0, tzinfo=UTC)
STREAM = "5a" * 16
TOOLS = (
    "bash", "openssl", "cat", "cp", "mktemp", "od", "rm", "tr",
)  # fmt: skip


@pytest.fixture(scope="module")
def sealed(tmp_path_factory, make_verified):
    """An archive with a sealed part of three records and an open one of two; the last two are of one payment."""
    folder = tmp_path_factory.mktemp("exhibit") / "archive"
    with EvidenceArchive(folder, stream_id=STREAM) as archive:
        for number in range(5):
            verified = make_verified(number)
            record = make_record(verified, http_status=201, payment_ref="both" if number > 2 else f"p{number}")
            archive.append(record, *verified.chain, verified.qwac)
            if number == 2:
                archive.rotate(now=NEXT_DAY)
    assert len(list(seal_archive(folder))) == 1
    return folder


@pytest.fixture
def verify(tmp_path_factory):
    """Runs `verify.sh` where there is nothing but bash, openssl and a few commands of coreutils."""
    tools = tmp_path_factory.mktemp("tools")
    for name in TOOLS:
        (tools / name).symlink_to(str(shutil.which(name)))

    def run(folder: Path) -> tuple[int, str]:
        command = ["env", "-i", f"PATH={tools}", "bash", str(folder / "verify.sh")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.stderr == ""
        return done.returncode, done.stdout

    return run


@pytest.fixture
def bundle(sealed, tmp_path, paths):
    exhibit = examine(find_record(sealed, "1"), paths=paths)
    write_bundle(exhibit, tmp_path / "bundle", paths=paths)
    return tmp_path / "bundle"


def sum_again(folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "SHA256SUMS")
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder)}\n" for path in files]
    (folder / "SHA256SUMS").write_text("".join(sums))


@pytest.mark.parametrize(
    ("wanted", "seq"),
    [
        ("0", 0),
        (f"{STREAM}/2", 2),
        ("p1", 1),
        ("00000000-0000-0000-0000-000000000003", 3),
        ("4", 4),
    ],
)
def test_a_record_is_found_and_its_place_is_proven(wanted, seq, sealed):
    found = find_record(sealed, wanted)
    place = prove_place(found)
    assert (found.record.seq, place.head.records) == (seq, 3 if seq < 3 else 5)
    root = root_from_path(bytes.fromhex(found.record.leaf), seq, place.head.records, place.path)
    assert root.hex() == place.head.root


def test_what_is_not_one_record_is_an_error_that_lists_them(sealed, tmp_path):
    for wanted in ("5", "ab" * 16 + "/1", "nothing", ""):
        with pytest.raises(FormatError, match="has no record"):
            find_record(sealed, wanted)
    assert [one.record.seq for one in find_records(sealed, "both")] == [3, 4]
    with pytest.raises(FormatError, match=f"is in 2 records; choose one: {STREAM}/3 .*, {STREAM}/4"):
        find_record(sealed, "both")
    with pytest.raises(ArchiveError):
        find_record(tmp_path / "absent", "1")


def test_a_bundle_is_verified_without_this_project(bundle, verify):
    code, text = verify(bundle)
    assert (code, text.splitlines()[-1]) == (0, "OK")
    assert "FAILS" not in text
    assert "NOT CHECKED" not in text


def other(path: Path, sealed: Path, paths: object, tmp_path: Path) -> None:
    exhibit = examine(find_record(sealed, "2"), paths=paths)
    if not (tmp_path / "other").exists():
        write_bundle(exhibit, tmp_path / "other", paths=paths)
    shutil.copy(tmp_path / "other" / path.name, path)


@pytest.mark.slow
def test_every_change_of_a_bundle_is_found_also_when_its_sums_are_computed_again(
    bundle, verify, sealed, paths, tmp_path
):
    names = [path.relative_to(bundle) for path in bundle.rglob("*") if path.is_file() and path.name != "verify.sh"]
    assert len(names) >= 12
    unnoticed = []
    for name in names:
        for change in ("flip", "swap", "remove"):
            folder = shutil.copytree(bundle, tmp_path / "changed")
            path = folder / name
            if change == "flip":
                raw = bytearray(path.read_bytes())
                raw[len(raw) // 2] ^= 1
                path.write_bytes(raw)
            elif change == "remove":
                path.unlink()
            else:
                other_path = name.name not in (
                    "body.bin",
                    "signing-string.txt",
                    "signature.bin",
                    "record.cbor",
                    "path.txt",
                )
                if other_path:
                    shutil.rmtree(folder)
                    continue
                other(path, sealed, paths, tmp_path)
            if verify(folder)[0] == 0:
                unnoticed.append((str(name), change, "as it is"))
            if name.name != "SHA256SUMS":
                sum_again(folder)
                if verify(folder)[0] == 0:
                    unnoticed.append((str(name), change, "summed again"))
            shutil.rmtree(folder)
    assert unnoticed == []


@pytest.mark.parametrize("field", ["the record names the body", "the record names the signing string"])
def test_a_bundle_of_parts_of_two_records_fails(field, bundle, verify, sealed, paths, tmp_path):
    names = ("body.bin",) if "body" in field else ("signing-string.txt", "signature.bin", "body.bin")
    for name in names:
        other(bundle / name, sealed, paths, tmp_path)
    sum_again(bundle)
    code, text = verify(bundle)
    assert (code, f"FAILS        {field}" in text) == (1, True)


def test_an_exhibit_says_which_step_fails(sealed, tmp_path, paths):
    folder = shutil.copytree(sealed, tmp_path / "archive")
    file = folder / "records.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"http_status":201', b'"http_status":202'))
    exhibit = examine(find_record(folder, "4"), paths=paths)
    assert [step.state for step in exhibit.steps][:5] == ["FAILS", "holds", "holds", "holds", "holds"]
    assert (exhibit.verdict.code, exhibit.place, exhibit.place_fault.code) == ("record.leaf", None, "head.unknown")
    with pytest.raises(FormatError, match="missing, moved or damaged"):
        write_bundle(exhibit, tmp_path / "bundle", paths=paths)
    (folder / f"certs/{exhibit.record.seal_cert}.der").unlink()
    exhibit = examine(find_record(folder, "1"), paths=paths)
    assert [step.state for step in exhibit.steps][2:5] == ["FAILS", "not checked", "not checked"]
