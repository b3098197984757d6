"""The table of competent authorities and the tables of object identifiers."""

from __future__ import annotations

import csv
import re

import pytest

from tppkit.certificates import oids
from tppkit.certificates.authorities import AUTHORITIES


def test_every_authority_has_an_identifier_of_the_form_of_the_standard():
    assert [nca_id for nca_id in AUTHORITIES if not re.fullmatch(r"[A-Z]{2}-[A-Z]{2,8}", nca_id)] == []


@pytest.mark.shared
def test_the_authorities_are_those_of_the_collected_list(shared_data):
    with (shared_data / "certificates" / "nca_ids.csv").open(newline="") as file:
        rows = {row["nca_id"]: row["nca_name"] for row in csv.DictReader(file)}
    rows["HR-HNB"] = rows["HR-CNB"]  # as production certificates write it
    assert {nca_id: rows.get(nca_id) for nca_id in AUTHORITIES} == dict(AUTHORITIES)


def test_every_role_name_appears_once():
    assert {oid: oids.PSP_ROLES[oid] for oid in oids.ROLE_OIDS.values()} == dict(oids.PSP_ROLES)


def test_the_four_roles_of_the_directive_have_their_numbers():
    # TS 119 495 clause 5.1
    assert [oids.ROLE_OIDS[name] for name in ("PSP_AS", "PSP_PI", "PSP_AI", "PSP_IC")] == [
        f"0.4.0.19495.1.{number}" for number in (1, 2, 3, 4)
    ]
