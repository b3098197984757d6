"""The verdicts that pkilint and zlint publish about their own test certificates, reproduced or explained one by one."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tppkit.certificates import EidasCertificate, Use, check_certificate
from tppkit.codes import CODES
from tppkit.errors import Finding, Severity

pytestmark = pytest.mark.shared
VERDICTS: dict[str, Any] = json.loads((Path(__file__).parent / "peer_verdicts.json").read_text("utf-8"))
COUNTERPARTS: dict[str, list[str]] = VERDICTS["counterparts"]
OUT_OF_SCOPE: dict[str, str] = VERDICTS["out_of_scope"]
DEVIATIONS: dict[tuple[str, str], str] = {
    (file, row["peer"]): row["reason"] for row in VERDICTS["deviations"] for file in row["files"]
}

# `zlint(mtgag all): NAME=VERDICT, …` or `pkilint[TEST]: SEVERITY:CODE, …`, several of them with || between.
_ZLINT = re.compile(r"([ew]_\w+)=(\w+)")
_PKILINT = re.compile(r"(?:FATAL|ERROR|WARNING|NOTICE):([\w.-]+)")
NONE = "no ETSI/orgid finding above INFO"
# What pkilint's rules of the same documents could have said; those of TS 119 495 it asks only of PSD2 certificates.
PSD2_ONLY = {"qcstatements.no-psd2", "organization-identifier.not-psd"}
ETSI = {code for peer, codes in COUNTERPARTS.items() if peer.startswith("etsi.") for code in codes}


class Verdict(NamedTuple):
    """What a peer says of a certificate: `breaks` the rule of this code, or keeps it."""

    file: str
    peer: str
    breaks: bool


def read_verdicts(row: dict[str, str]) -> Iterator[Verdict]:
    for part in row["peer_expected"].split(" || "):
        if part.startswith("pkilint") and NONE in part:
            yield Verdict(row["file"], NONE, False)
        for name, verdict in _ZLINT.findall(part) if part.startswith("zlint") else ():
            if verdict in ("Error", "Warn", "Pass"):  # NA: the peer did not look
                yield Verdict(row["file"], name, verdict != "Pass")
        for code in _PKILINT.findall(part):
            yield Verdict(row["file"], code, True)


@pytest.fixture(scope="module")
def verdicts(shared_data) -> list[Verdict]:
    with (shared_data / "certificates" / "index.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["peer_expected"]]
    return [verdict for row in rows for verdict in read_verdicts(row)]


@pytest.fixture(scope="module")
def ours(shared_data, verdicts) -> dict[str, tuple[Finding, ...]]:
    """Our findings by file, judged on the day of issue for the use that the certificate is nearest to."""
    found = {}
    for file in {verdict.file for verdict in verdicts}:
        read = EidasCertificate.from_der((shared_data / "certificates" / file).read_bytes())
        found[file] = check_certificate(read, as_=nearest_use(file, read), at=read.not_before)
    return found


def nearest_use(file: str, read: EidasCertificate) -> Use:
    """Zlint takes QcType for what a certificate is, pkilint its extended key usage; one file says neither."""
    web = "serverAuth" in read.extensions.extended_key_usage
    if file in VERDICTS["judged_as_qwac"] or "web" in read.qc.types:
        return Use.QWAC
    return Use.QSEALC if not web or ("zlint" in file and read.qc.types) else Use.QWAC


def agrees(verdict: Verdict, findings: tuple[Finding, ...]) -> bool:
    if verdict.peer == NONE:
        return not judged_alike(findings)
    return verdict.breaks == bool({f.code for f in findings} & set(COUNTERPARTS[verdict.peer]))


def judged_alike(findings: tuple[Finding, ...]) -> set[str]:
    """Our codes above a notice that have a counterpart in pkilint."""
    codes = {f.code for f in findings if f.severity is not Severity.NOTICE}
    return (codes - PSD2_ONLY if "qcstatements.no-psd2" in codes else codes) & ETSI


def unsaid(verdicts: list[Verdict], ours: dict[str, tuple[Finding, ...]]) -> Iterator[tuple[str, str]]:
    """What we find and pkilint, which lists all that it finds, does not."""
    for file in sorted({v.file for v in verdicts if v.breaks and "pkilint" in v.file}):
        said = {code for v in verdicts if v.file == file for code in COUNTERPARTS.get(v.peer, ())}
        if not any(v.file == file and v.peer == NONE for v in verdicts):
            yield from ((file, f"not said: {code}") for code in sorted(judged_alike(ours[file]) - said))


def test_every_verdict_is_reproduced_or_explained(verdicts, ours):
    assert len(verdicts) > 250
    judged = [verdict for verdict in verdicts if verdict.peer not in OUT_OF_SCOPE]
    differing = {(v.file, v.peer) for v in judged if not agrees(v, ours[v.file])} | set(unsaid(verdicts, ours))
    assert sorted(differing - set(DEVIATIONS)) == []
    assert sorted(set(DEVIATIONS) - differing) == []


def test_every_peer_code_is_known(verdicts):
    named = {verdict.peer for verdict in verdicts} - {NONE}
    assert sorted(named - set(COUNTERPARTS) - set(OUT_OF_SCOPE)) == []


def test_the_table_names_codes_that_exist_and_gives_reasons():
    assert {code for codes in COUNTERPARTS.values() for code in codes} <= set(CODES)
    assert not set(COUNTERPARTS) & set(OUT_OF_SCOPE)
    assert all(len(reason) > 15 for reason in (*OUT_OF_SCOPE.values(), *DEVIATIONS.values()))
