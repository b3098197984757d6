"""Nothing secret is shown unless it is asked for, and what is masked keeps its length."""

from __future__ import annotations

import json

import pytest
from wrong_signer import COVERED, HEADERS, joined, seal_wrongly

from tppkit.httpsig import Message
from tppkit.seals.diagnose import Diagnosis, diagnose_request
from tppkit.seals.diagnose.draft import Draft, Line
from tppkit.seals.diagnose.masking import shown_bytes
from tppkit.testpki import Pki

SECRET = "S3CRETvalue"
CARD = "4111111111111111"


def shown(diagnosis: Diagnosis) -> str:
    return json.dumps(diagnosis.to_object(), ensure_ascii=False)


@pytest.mark.parametrize(
    "name", ["Authorization", "Cookie", "X-Api-Key", "X-Amz-Access-Token", "Client-Secret", "Proxy-Authorization"]
)
@pytest.mark.parametrize("after", ["", "\n"])
def test_a_covered_secret_is_masked_and_keeps_its_length(pki: Pki, name: str, after: str) -> None:
    message = seal_wrongly(
        pki.qseal, headers=(*HEADERS, (name, f"Bearer {SECRET}")), covered=(name.lower(), *COVERED), assemble=joined(after=after)
    )  # fmt: skip
    diagnosis = diagnose_request(message)
    assert SECRET not in shown(diagnosis)
    assert f"{name.lower()}: ****** {'*' * len(SECRET)}\n".encode() in (diagnosis.expected or b"")
    assert SECRET in shown(diagnose_request(message, show_values=True))


@pytest.mark.parametrize("parameter", ["access_token", "client_secret", "apikey", "code", "API-Key"])
def test_a_secret_in_the_query_is_masked_in_every_form_of_the_target(pki: Pki, parameter: str) -> None:
    target = f"/a/b?x=1&{parameter}={SECRET}&y=%2F2"
    for change in (str, str.upper, lambda value: value.replace("&", "%26").replace("=", "%3D")):
        message = seal_wrongly(pki.qseal, target=target, signed_target=change)
        diagnosis = diagnose_request(message, max_work=50_000)
        assert SECRET.lower() not in shown(diagnosis).lower()
        assert b"&y=%2F2" in (diagnosis.expected or b"")


def test_a_secret_is_masked_where_names_were_left_out_of_the_string(pki: Pki) -> None:
    message = seal_wrongly(
        pki.qseal,
        headers=(*HEADERS, ("Cookie", SECRET)),
        covered=(*COVERED, "cookie"),
        assemble=lambda lines: "\n".join(value for _, value in lines).encode(),
    )
    diagnosis = diagnose_request(message)
    assert [cause.name for cause in diagnosis.causes] == ["names-left-out"]
    assert SECRET not in shown(diagnosis)


def test_a_cookie_that_was_signed_besides_is_masked(pki: Pki) -> None:
    message = seal_wrongly(
        pki.qseal, headers=(*HEADERS, ("Cookie", SECRET)), lines=lambda lines: [*lines, ("cookie", SECRET)]
    )
    diagnosis = diagnose_request(message)
    assert [cause.name for cause in diagnosis.causes] == ["header-added"]
    assert SECRET not in shown(diagnosis)


def test_a_card_number_in_a_path_is_masked_and_another_number_is_not(pki: Pki) -> None:
    message = seal_wrongly(pki.qseal, target=f"/cards/{CARD}/4111111111111112")
    diagnosis = diagnose_request(message)
    assert b"/cards/****************/4111111111111112" in (diagnosis.expected or b"")


@pytest.mark.parametrize(
    "between", ["-", " ", "%20", "+", "%2D", ".", "%2520", "%2B", "%252B", ",", "/", "--", " - ", "%20-%20", ":"]
)
@pytest.mark.parametrize("more", ["", "-05"])
def test_a_card_number_in_groups_is_masked_too(pki: Pki, between: str, more: str) -> None:
    groups = between.join(["4111", "1111", "1111", "1111"])
    value = f"a {groups}{more} b" if between == " " else f"a{groups}{more}b"
    message = seal_wrongly(pki.qseal, headers=(*HEADERS, ("X-Note", value)), covered=("x-note", *COVERED))
    text = shown(diagnose_request(message))
    assert between.join(["****"] * 4).replace(" ", "·") in text
    assert "1111" not in text
    assert more in text


@pytest.mark.parametrize(
    "before",
    ["card%20", "%22pan%22%3A%22", "%2522", "%252520", "100%25", "100%2525", "%", "%%", "note=5%25", "12-", "7%20"],
)
def test_a_card_number_behind_a_percent_escape_is_masked(pki: Pki, before: str) -> None:
    message = seal_wrongly(pki.qseal, target=f"/v1?q={before}{CARD}%22")
    diagnosis = diagnose_request(message)
    assert f"?q={before}{'*' * len(CARD)}%22".encode() in (diagnosis.expected or b"")
    assert CARD not in shown(diagnosis)


@pytest.mark.parametrize(
    "text", ["4111%2B1111%2B1111%2B1112", "1%20%20%20%201", "2026-11-21%2010:00:00", "4111----1111----1111----1111"]
)
def test_escapes_and_digits_that_are_no_card_number_are_kept(pki: Pki, text: str) -> None:
    diagnosis = diagnose_request(seal_wrongly(pki.qseal, target=f"/v1?q={text}"))
    assert f"?q={text}".encode() in (diagnosis.expected or b"")


@pytest.mark.parametrize("part", ["1-", "%25", "%", "%20", "1%20", "1%25", "1---", "1----", "%2", "12%2520"])
def test_a_very_long_run_of_digits_escapes_and_signs_is_masked_in_linear_time(pki: Pki, part: str) -> None:
    line = Line("(request-target)", "get /" + part * (40_000 // len(part)))
    assert len(shown_bytes(Draft((line,)), show_values=False) or b"") > 39_000


def test_a_very_long_target_of_digits_and_dashes_is_diagnosed(pki: Pki) -> None:
    message = Message("GET", "/" + "1-" * 30_000, seal_wrongly(pki.qseal, method="GET", body=b"").headers)
    assert diagnose_request(message, max_work=1_000).expected is not None


def test_a_signed_body_is_told_by_its_length_and_hash(pki: Pki) -> None:
    body = f'{{"pan":"{CARD}"}}'.encode()
    message = seal_wrongly(pki.qseal, body=body, string=lambda data: body)
    diagnosis = diagnose_request(message)
    assert [cause.name for cause in diagnosis.causes] == ["signed-body"]
    assert diagnosis.signed is None
    assert CARD not in shown(diagnosis)
    assert f"{len(body)} bytes" in diagnosis.causes[0].evidence[0]
    assert diagnose_request(message, show_values=True).signed == body


@pytest.mark.parametrize("size", [16, 20, 32, 40])
def test_a_text_that_was_signed_without_a_hash_is_not_given_back(rsa_pki: Pki, size: int) -> None:
    content = SECRET.ljust(size, "x").encode()
    key = rsa_pki.qseal.key
    numbers = key.private_numbers()
    block = b"\0\1" + b"\xff" * (256 - 3 - size) + b"\0" + content
    signature = pow(int.from_bytes(block, "big"), numbers.d, numbers.public_numbers.n).to_bytes(256, "big")
    diagnosis = diagnose_request(seal_wrongly(rsa_pki.qseal, signer=lambda key, data: signature), max_work=20_000)
    assert diagnosis.recovered_hash == ""
    assert content.hex() not in shown(diagnosis)


def test_a_long_run_of_secret_names_is_masked_in_linear_time(pki: Pki) -> None:
    message = Message("GET", "/?" + "key" * 20_000, seal_wrongly(pki.qseal, method="GET", body=b"").headers)
    assert diagnose_request(message, max_work=1_000).expected is not None
