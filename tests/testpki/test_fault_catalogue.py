"""Each fault of the catalogue is found by `cert check`, and nothing else is: run with what the manifest says."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from refusals import refused
from tppkit._clock import format_time, parse_time
from tppkit.certificates import EidasCertificate
from tppkit.cli.cert import check
from tppkit.codes import CODES
from tppkit.errors import ConfigurationError
from tppkit.testpki import Pki, make_pki, make_provider, write_pki
from tppkit.testpki.fault_files import EARLIEST_DAY
from tppkit.testpki.faults.catalogue import FAULTS

pytestmark = pytest.mark.slow

BAFIN = make_provider(organization_identifier="PSDDE-BAFIN-123456", name="Zahlgut", roles=["PSP_CB"])
VAT = make_provider(organization_identifier="VATLT-123456789")
OPTIONS: dict[str, dict[str, Any]] = {
    "p256": {}, "rsa2048": {"key": "rsa2048"}, "german": {"provider": BAFIN, "key": "p384", "seal_key": "ed25519"},
    "ev": {"policy": "ev", "qscd": True}, "one-day": {"days": 1, "services_url": "http://localhost:8448"},
    "vat": {"provider": VAT, "days": 3000},
}  # fmt: skip


@dataclass(frozen=True)
class Written:
    folder: Path
    entries: list[dict[str, Any]]

    @property
    def faults(self) -> list[dict[str, Any]]:
        return [entry for entry in self.entries if entry["kind"] == "fault"]

    def arguments(self, entry: dict[str, Any], at: str | None = None) -> list[str]:
        answers = [(f"--{kind}", str(self.folder / name)) for kind in ("crl", "ocsp") for name in entry[kind]]
        return [
            str(self.folder / entry["path"]), "--as", entry["as"], "--at", at or entry["at"], "--trust",
            str(self.folder / "root.pem"), *(word for pair in answers for word in pair), "--json",
        ]  # fmt: skip

    def check(self, entry: dict[str, Any], at: str | None = None) -> tuple[int, dict[str, Any]]:
        done = CliRunner().invoke(check, self.arguments(entry, at), standalone_mode=False)
        assert done.exception is None, (entry["path"], done.exception)
        return done.return_value, json.loads(done.stdout)


@pytest.fixture(scope="module", params=["p256", *(name for name in OPTIONS if name != "p256")])
def written(request, pki: Pki, rsa_pki: Pki, tmp_path_factory) -> Written:
    known = {"p256": pki, "rsa2048": rsa_pki}
    made = known.get(request.param) or make_pki(at=pki.not_before, seed=1, **OPTIONS[request.param])
    folder = tmp_path_factory.mktemp("faults") / request.param
    return Written(folder, write_pki(made, folder, with_faults=True)["files"])


def differing(written: Written, at: str | None = None) -> dict[str, Any]:
    """The faults of which a check reports other codes or another verdict than the manifest."""
    differ = {}
    for entry in written.faults:
        exit_code, verdict = written.check(entry, at)
        errors = {finding["code"] for finding in verdict["findings"] if finding["severity"] == "error"}
        found = {finding["code"] for finding in verdict["findings"]}
        weights = {finding["severity"] for finding in verdict["findings"]}
        given = "fails" if exit_code == 1 else "warns" if "warning" in weights else "notes"
        if found != set(entry["expected"]) or given != entry["verdict"] or (verdict["code"] in errors) != bool(errors):
            differ[entry["path"]] = (found, entry["expected"], exit_code)
    return differ


def test_every_fault_is_found_and_nothing_else(written):
    assert len(written.faults) == len(FAULTS)
    assert differing(written) == {}


# The first moment at which `pki create` may have run, and the last of that day.
@pytest.mark.parametrize("after", [timedelta(), timedelta(hours=23, minutes=59, seconds=59)])
@pytest.mark.parametrize("written", ["p256"], indirect=True)
def test_every_fault_is_a_fault_during_the_whole_day_of_creation(written, pki, after):
    assert differing(written, format_time(pki.not_before + after)) == {}
    assert {parse_time(entry["at"]).date() for entry in written.faults} == {pki.not_before.date()}


@pytest.mark.parametrize("written", ["p256"], indirect=True)
def test_faults_last_for_a_week_except_a_list_without_end(written, pki):
    assert differing(written, format_time(pki.not_before + timedelta(days=6))).keys() == {"faults/crl-without-end.pem"}


@pytest.mark.parametrize("written", ["p256", "rsa2048", "german"], indirect=True)
def test_nothing_is_found_in_valid_certificates_of_the_same_pki(written):
    for label, kind in (("qwac", "qwac"), ("qseal", "qseal"), ("other-qwac", "qwac"), ("other-qseal", "qseal")):
        valid = {"path": f"{label}-chain.pem", "as": kind, "at": written.faults[0]["at"], "ocsp": []}
        for crls in ([], ["root.crl", f"issuing-ca-{kind}.crl"]):
            exit_code, verdict = written.check(valid | {"crl": crls})
            assert (exit_code, verdict["verdict"], verdict["findings"]) == (0, "holds", [])


@pytest.mark.parametrize("written", ["p256"], indirect=True)
def test_the_manifest_entry_of_a_fault_is_complete(written):
    for entry in written.faults:
        assert entry.keys() == {
            "path", "kind", "key_path", "sha256", "not_after", "expected", "verdict", "further_paths", "as", "at", "crl", "ocsp",
            "summary", "command", "gate",
        }  # fmt: skip
        leaf, *_ = re.findall(
            "-----BEGIN.*?END CERTIFICATE-----\n", (written.folder / entry["path"]).read_text(), re.DOTALL
        )
        assert EidasCertificate.from_pem(leaf).sha256 == entry["sha256"]
        assert entry["further_paths"] == [*entry["crl"], *entry["ocsp"]]
        assert entry["expected"] == sorted(entry["expected"]) != []
        assert entry["key_path"] in ("qwac.key", "qseal.key", None)
        assert (written.folder / (entry["key_path"] or "qwac.key")).is_file()
    named = {name for entry in written.faults for name in (entry["path"], *entry["further_paths"])}
    assert named == {f"faults/{path.name}" for path in (written.folder / "faults").iterdir()}


def test_the_catalogue_has_at_least_eighty_faults_each_with_one_line():
    assert len(FAULTS) >= 80
    for name, fault in FAULTS.items():
        assert name == fault.name
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)
        assert re.fullmatch(r"[A-Z][^\n]{8,110}[^.\n]", fault.summary), fault.summary
        assert set(fault.expected) <= set(CODES)
    assert len({fault.summary for fault in FAULTS.values()}) == len(FAULTS)


def test_on_the_first_day_of_the_rules_every_fault_is_found(tmp_path):
    at = datetime.combine(EARLIEST_DAY, time(), UTC)
    written = Written(tmp_path / "pki", write_pki(make_pki(at=at, seed=1), tmp_path / "pki", with_faults=True)["files"])
    assert differing(written) == {}


def test_before_the_rules_no_catalogue_is_made(tmp_path):
    pki = make_pki(at=datetime(2023, 3, 1, tzinfo=UTC), seed=1)
    with refused(ConfigurationError, "pki.faults", match="2023-09-01"):
        write_pki(pki, tmp_path / "pki", with_faults=True)
    assert not (tmp_path / "pki").exists()
