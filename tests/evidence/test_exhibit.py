"""One record as a bundle: bash and openssl verify it alone, and every change of it is found."""

from __future__ import annotations

import hashlib
import shutil
from datetime import UTC, datetime
from random import Random

import pytest
from audits import TSA, authority, root_from_path

from tppkit.errors import ArchiveError, FormatError
from tppkit.evidence import EvidenceArchive, Verdict, audit_archive
from tppkit.evidence.exhibit import examine, write_bundle
from tppkit.evidence.lookup import find_record, find_records, prove_place
from tppkit.evidence.proofs import stamp_archive
from tppkit.evidence.retention import redact
from tppkit.evidence.sealing import seal_archive

AT, NEXT_DAY = datetime(2026, 6, 1, 12, 0, tzinfo=UTC), datetime(2026, 6, 2, 12, 0, tzinfo=UTC)
STREAM = "5a" * 16


@pytest.fixture(scope="module")
def sealed(tmp_path_factory, pki, received):
    """An archive with a sealed and stamped part of three records and an open one of two; the last two are of one payment."""
    folder = tmp_path_factory.mktemp("exhibit") / "archive"
    with EvidenceArchive(folder, stream_id=STREAM) as archive:
        for number in range(5):
            archive.append(received(number, payment_ref="both" if number > 2 else f"p{number}"))
            if number == 2:
                archive.rotate(now=NEXT_DAY)
    assert len(list(seal_archive(folder))) == 1

    assert len(list(stamp_archive(folder, TSA, fetch=authority(pki)))) == 1
    return folder


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
    with open(bundle / "head.txt", "a") as file:
        file.write("\n")
    code, text = verify(bundle)
    assert (code, "FAILS        the sum of head.txt" in text) == (1, True)


@pytest.fixture
def other(sealed, tmp_path, paths):
    """The bundle of another record of the same part."""
    write_bundle(examine(find_record(sealed, "2"), paths=paths), tmp_path / "other", paths=paths)
    return tmp_path / "other"


@pytest.mark.slow
@pytest.mark.parametrize("change", ["flip", "remove", "swap"])
def test_every_change_of_a_bundle_is_found_when_its_sums_are_computed_again(change, bundle, other, verify):
    names = [path.relative_to(bundle) for path in bundle.rglob("*") if path.is_file() and path.name != "verify.sh"]
    assert {"head.tsr", "stamp-anchor.der", "body.bin"} < {str(name) for name in names}
    unnoticed = []
    for name in names:
        path, raw = bundle / name, (bundle / name).read_bytes()
        if change == "flip":
            path.write_bytes(raw[: len(raw) // 2] + bytes([raw[len(raw) // 2] ^ 1]) + raw[len(raw) // 2 + 1 :])
        elif change == "remove":
            path.unlink()
        elif (other / name).is_file():
            path.write_bytes((other / name).read_bytes())
        if path.name != "SHA256SUMS":
            sum_again(bundle)
            is_other = not path.exists() or path.read_bytes() != raw
            if is_other and verify(bundle)[0] == 0:
                unnoticed.append(str(name))
        path.write_bytes(raw)
    # Without its time stamp a record is as well proven as one that was never stamped.
    assert unnoticed == (["head.tsr"] if change == "remove" else [])


@pytest.mark.parametrize("field", ["the record names the body", "the record names the signing string"])
def test_a_bundle_of_parts_of_two_records_fails(field, bundle, other, verify):
    names = ("body.bin",) if "body" in field else ("signing-string.txt", "signature.bin", "body.bin")
    for name in names:
        shutil.copy(other / name, bundle / name)
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
    assert [step.state for step in exhibit.steps][2:5] == ["undecided", "not checked", "not checked"]


def test_a_redacted_body_is_not_checked_and_the_rest_holds(sealed, verify, paths, tmp_path):
    folder = shutil.copytree(sealed, tmp_path / "archive")
    redact(folder, [1], ground="erasure", by="Ada", now=NEXT_DAY)
    write_bundle(examine(find_record(folder, "1"), paths=paths), tmp_path / "bundle", paths=paths)
    code, text = verify(tmp_path / "bundle")
    assert (code, text.count("NOT CHECKED"), text.count("FAILS")) == (3, 1, 0)
    assert "NOT CHECKED  the body is not in this exhibit: it was redacted" in text


@pytest.mark.slow
def test_a_thousand_payments_and_consents_have_the_same_verdicts_without_this_project(
    tmp_path, received, verify, paths
):
    folder = tmp_path / "archive"
    with EvidenceArchive(folder, stream_id=STREAM) as archive:
        archive.append_many(received(number) for number in range(500))
        archive.files.keep(received(0).files)
        archive.rotate(now=NEXT_DAY)
        archive.append_many(received(number) for number in range(500, 1000))
    list(seal_archive(folder))
    verdicts = [row.verdict for row in audit_archive(folder, paths=paths)]
    for seq in (0, 499, 500, 999, *Random(1).sample(range(1000), 4)):
        bundle = tmp_path / f"bundle-{seq}"
        write_bundle(examine(find_record(folder, str(seq)), paths=paths), bundle, paths=paths)
        assert (verify(bundle)[0] == 0) is (verdicts[seq] is Verdict.PASSED) is True
