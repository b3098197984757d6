"""Nothing secret is shown unless it is asked for, and what is masked keeps its length."""

from __future__ import annotations

import json

import pytest
from wrong_signer import COVERED, HEADERS, joined, seal_wrongly

from tppkit.seals.diagnose import Diagnosis, diagnose_request
from tppkit.seals.diagnose.masking import shown_bytes
from tppkit.seals.diagnose.strings import Line, SigningString

SECRET, CARD = "S3CRETvalue", "4111111111111111"


def shown(diagnosis: Diagnosis) -> str:
    return json.dumps(diagnosis.to_object(), ensure_ascii=False)


@pytest.mark.parametrize("name", ["Authorization", "Cookie", "X-Api-Key", "X-Amz-Access-Token", "Client-Secret"])
@pytest.mark.parametrize("after", ["", "\n"])
def test_a_covered_secret_is_masked_and_keeps_its_length(pki, name, after):
    headers, covered = (*HEADERS, (name, f"Bearer {SECRET}")), (name.lower(), *COVERED)
    message = seal_wrongly(pki.qseal, headers=headers, covered=covered, assemble=joined(after=after))
    diagnosis = diagnose_request(message)
    assert SECRET not in shown(diagnosis)
    assert f"{name.lower()}: ****** {'*' * len(SECRET)}\n".encode() in (diagnosis.expected or b"")
    assert SECRET in shown(diagnose_request(message, show_values=True))


@pytest.mark.parametrize("parameter", ["access_token", "client_secret", "apikey", "code", "API-Key"])
def test_a_secret_in_the_query_is_masked_in_every_form_of_the_target(pki, parameter):
    target = f"/a/b?x=1&{parameter}={SECRET}&y=%2F2"
    for change in (str, str.upper, lambda value: value.replace("%", "%25")):
        diagnosis = diagnose_request(seal_wrongly(pki.qseal, target=target, signed_target=change), max_work=20_000)
        assert SECRET.lower() not in shown(diagnosis).lower()
        assert b"&y=%2F2" in (diagnosis.expected or b"")


def masked(text: str) -> str:
    return (shown_bytes(SigningString((Line("x-note", text),)), show_values=False) or b"").decode()


BETWEEN = ["", "-", " ", "%20", "+", "%2D", ".", "%2520", "%2B", "%252B", ",", "/", "--", " - ", "%20-%20", ":"]


@pytest.mark.parametrize("between", BETWEEN)
def test_a_card_number_is_masked_in_groups_and_behind_escapes(between):
    groups = between.join([CARD[:4], *[CARD[4:8]] * 3])
    assert masked(f"a{groups}-05b") == f"x-note: a{between.join(['****'] * 4)}-05b"
    for before in ("card%20", "%22pan%22%3A%22", "%2522", "%252520", "100%25", "%", "%%", "note=5%25", "12-", "7%20"):
        assert masked(f"?q={before}{CARD}%22") == f"x-note: ?q={before}{'*' * len(CARD)}%22"


@pytest.mark.parametrize(
    "text", ["4111111111111112", "4111%2B1111%2B1111%2B1112", "2026-11-21%2010:00:00", "4111----1111----1111----1111"]
)
def test_digits_that_are_not_a_card_number_are_kept(text):
    assert masked(text) == f"x-note: {text}"


@pytest.mark.parametrize("part", ["1-", "%25", "%", "1%20", "1---", "%2", "12%2520", "key"])
def test_a_very_long_run_of_digits_escapes_and_signs_is_masked_in_linear_time(part):
    assert len(masked(part * (40_000 // len(part)))) > 39_000


def test_a_signed_body_is_described_by_its_length_and_hash(pki):
    body = f'{{"pan":"{CARD}"}}'.encode()
    message = seal_wrongly(pki.qseal, body=body, string=lambda data: body)
    diagnosis = diagnose_request(message)
    assert [cause.name for cause in diagnosis.causes] == ["signed-body"]
    assert (diagnosis.signed, CARD in shown(diagnosis)) == (None, False)
    assert f"{len(body)} bytes" in diagnosis.causes[0].evidence[0]
    assert diagnose_request(message, show_values=True).signed == body
