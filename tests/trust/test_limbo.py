"""tools/limbo.py names each verdict that became more lenient, and its figures are those of the page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

import limbo
from tppkit.certificates import EidasCertificate

AT = "2026-06-01T12:00:00+00:00"


@pytest.fixture
def run(pki, tmp_path, capsys):
    """Judge one chain that holds, under the name and expectation of a case."""

    def run(name: str, expected: str) -> tuple[int, str]:
        case = {
            "id": name,
            "validation_time": AT,
            "trusted_certs": [pem(pki.root.certificate)],
            "untrusted_intermediates": list(map(pem, pki.qseal.chain)),
            "peer_certificate": pem(pki.qseal.certificate),
            "expected_result": expected,
            "features": [],
        }
        file = tmp_path / "limbo.json"
        file.write_text(json.dumps({"testcases": [case]}))
        return limbo.main(file), capsys.readouterr().out

    return run


def pem(certificate: EidasCertificate) -> str:
    return certificate.x509.public_bytes(Encoding.PEM).decode()


def test_a_case_that_holds_as_expected_passes(run):
    code, text = run("webpki::ok", "SUCCESS")
    assert code == 0
    assert "1 cases: 1 same" in text


def test_a_case_that_is_known_to_hold_passes(run):
    code, text = run("webpki::ca-as-leaf", "FAILURE")
    assert code == 0
    assert "1 more lenient" in text


def test_a_case_that_holds_now_and_failed_before_fails(run):
    code, text = run("rfc5280::new-leniency", "FAILURE")
    assert code == 1
    assert "rfc5280::new-leniency holds now" in text


def test_the_page_quotes_the_figures_of_the_table():
    page = (Path(__file__).parents[2] / "docs/explanation/how-a-path-is-built.md").read_text("utf-8")
    same, lenient, stricter = map(
        int, re.search(r"(\d+) verdicts equal, (\d+) more lenient, (\d+) stricter", page).groups()
    )
    known = [case for cases in limbo.LENIENT.values() for case in cases.split()]
    assert len(known) == len(set(known)) == lenient
    assert same + lenient + stricter == 208
