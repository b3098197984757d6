"""What is told is true: near misses of a known mistake are told as what they are, or not at all."""

from __future__ import annotations

import hashlib
import zlib
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import replace
from urllib.parse import quote

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, pkcs7
from cryptography.x509 import load_der_x509_certificate
from wrong_signer import COVERED, HEADERS, joined, replaced, seal_wrongly, without_line

from tppkit._encoding import encode_base64
from tppkit.httpsig import Message, make_digest
from tppkit.httpsig.components import parse_origin
from tppkit.seals import PROFILES, PSD2_V1
from tppkit.seals.diagnose import Diagnosis, Outcome, diagnose_request
from tppkit.seals.key_id import make_key_id
from tppkit.testpki import Issued, Pki, certificate_pem

NEEDED = ("digest", "x-request-id", "(request-target)")


def names(diagnosis: Diagnosis) -> list[str]:
    return [cause.name for cause in diagnosis.causes]


def explained(diagnosis: Diagnosis) -> list[str]:
    assert diagnosis.outcome is Outcome.EXPLAINED
    return names(diagnosis)


def hashed_as(text: bytes) -> dict[str, Callable[[bytes], bytes]]:
    return {"hashed": lambda body: text}


# (what was sent, what was hashed, the causes)
BODIES = [
    (b'{"a": 12.50}', b'{"a":12.50}', ["json-compact"]),
    (b'{"a":12.50}', b'{"a":12.5}', ["json-number-form"]),
    (b'{"a":12.5}', b'{"a":12.50}', ["json-number-form"]),
    (b'{"a":12,"n":7}', b'{"a":12.0,"n":7.0}', ["json-number-form"]),
    (b'{"a":1.25E+1}', b'{"a":12.5}', ["json-number-form"]),
    (b'{"a": 12.50}', b'{"a":12.5}', ["json-compact", "json-number-form"]),
    (b'{"a":100000000000000000.99}', b'{"a":1e+17}', ["json-number-rounded"]),
    (b'{"a":12345678901234567890}', b'{"a":12345678901234567000}', ["json-number-rounded"]),
    (b'{"a":"12.50"}', b'{"a":12.50}', ["json-numbers"]),
    (b"a=x+y&b=%2F", b"a=x%20y&b=%2F", ["form-encoded-otherwise"]),
    (b"a=x+y&b=%2F", b"a=x+y&b=%2f", ["form-encoded-otherwise"]),
    (b"c=3&a=1&b=2", b"b=2&c=3&a=1", ["form-order"]),
    (zlib.compress(b"abc"), b"abc", ["body-deflate"]),
    (zlib.compress(b"abc")[2:-4], b"abc", ["body-deflate"]),
    (b"abc" * 30, zlib.compress(b"abc" * 30), ["body-deflated"]),
    (b"5\r\nabcde\r\n2;x=y\r\nfg\r\n0\r\n\r\n", b"abcdefg", ["body-chunked"]),
]  # fmt: skip


@pytest.mark.parametrize(("sent", "hashed", "causes"), BODIES)
def test_a_body_that_was_written_anew_is_told_as_what_was_done(
    pki: Pki, sent: bytes, hashed: bytes, causes: list[str]
) -> None:
    diagnosis = diagnose_request(seal_wrongly(pki.qseal, body=sent, **hashed_as(hashed)))
    assert explained(diagnosis) == causes


@pytest.mark.parametrize(
    ("sent", "hashed"),
    [(b'{"a": 99.50}', b'{"a":12.50}'), (b'{"a":12.51}', b'{"a":12.5}'), (b'{"a":"number 1"}', b'{"a":1}'), (b'{"a":1e999}', b'{"a":1}')],
)  # fmt: skip
def test_an_altered_amount_is_not_explained(pki: Pki, sent: bytes, hashed: bytes) -> None:
    diagnosis = diagnose_request(seal_wrongly(pki.qseal, body=sent, **hashed_as(hashed)))
    assert (diagnosis.outcome, names(diagnosis)) == (Outcome.UNEXPLAINED, [])


def test_a_decimal_serial_is_a_matter_of_form(pki: Pki, other_qseal: Issued) -> None:
    key_id = make_key_id(pki.qseal.certificate)
    decimal = key_id.replace(f"SN={pki.qseal.certificate.serial:X}", f"SN={pki.qseal.certificate.serial}")
    diagnosis = diagnose_request(seal_wrongly(pki.qseal, key_id=decimal), certificates=[other_qseal.certificate])
    assert explained(diagnosis) == ["key-id-form"]
    assert "decimal" in diagnosis.causes[0].evidence[0]


def test_a_hexadecimal_serial_where_decimal_is_due_is_a_matter_of_form(rsa_pki: Pki) -> None:
    profile = replace(PSD2_V1, name="decimal", key_id=PROFILES["rabobank"].key_id)
    message = seal_wrongly(rsa_pki.qseal, covered=NEEDED, key_id=f"{rsa_pki.qseal.certificate.serial:X}")
    assert explained(diagnose_request(message, profile=profile)) == ["key-id-form"]


def test_a_whole_address_in_the_start_line_is_told_and_judged_by_its_path(pki: Pki) -> None:
    message = seal_wrongly(pki.qseal, target="/psd2/v1/a?token=S3CRET")
    absolute = message._replace(target=f"https://api.bank.example{message.target}")
    diagnosis = diagnose_request(absolute)
    assert explained(diagnosis) == ["target-absolute"]
    assert "S3CRET" not in str(diagnosis.to_object())
    wrong = seal_wrongly(pki.qseal, signed_target=lambda value: value.partition("?")[0])
    wrong = wrong._replace(target=f"https://api.bank.example{wrong.target}")
    assert explained(diagnose_request(wrong)) == ["target-absolute", "target-without-query"]


def test_a_whole_address_that_was_signed_as_it_stands_verifies(pki: Pki) -> None:
    message = seal_wrongly(pki.qseal, target="https://api.bank.example/a?x")
    assert diagnose_request(message).outcome is Outcome.VERIFIES


def with_digest(message: Message, *values: str) -> Message:
    others = tuple(header for header in message.headers if header[0] != "Digest")
    return message._replace(headers=(*others, *[("Digest", value) for value in values]))


@pytest.mark.parametrize("foreign", [make_digest(b"else"), make_digest(b"else", algorithm="SHA-512")])
def test_a_digest_that_was_replaced_after_signing_is_told_so(pki: Pki, foreign: str) -> None:
    diagnosis = diagnose_request(with_digest(seal_wrongly(pki.qseal), foreign))
    assert explained(diagnosis) == ["digest-replaced"]


@pytest.mark.parametrize("place", [0, 1])
def test_a_second_foreign_digest_does_not_say_that_the_body_changed(pki: Pki, place: int) -> None:
    message = seal_wrongly(pki.qseal)
    own = dict(message.headers)["Digest"]
    both = [own, own]
    both[1 - place] = make_digest(b"else")
    diagnosis = diagnose_request(with_digest(message, *both))
    assert explained(diagnosis) == ["header-doubled", ("value-first", "value-last")[place]]


def test_a_digest_that_fits_neither_the_signature_nor_the_body_explains_nothing(pki: Pki) -> None:
    message = seal_wrongly(pki.qseal)
    diagnosis = diagnose_request(with_digest(message, make_digest(b"else"))._replace(body=b"other"), max_work=60_000)
    assert diagnosis.outcome is Outcome.UNEXPLAINED


def test_a_digest_that_is_not_there_does_not_clear_the_body(pki: Pki) -> None:
    message = with_digest(seal_wrongly(pki.qseal, string=lambda data: data[::-1]))
    diagnosis = diagnose_request(message, max_work=60_000)
    assert diagnosis.outcome is Outcome.UNEXPLAINED
    assert not any("its digest is" in text for text in diagnosis.excluded)


def test_a_missing_request_id_is_told_and_nothing_that_a_mend_would_make(pki: Pki) -> None:
    headers = tuple(header for header in HEADERS if header[0] != "X-Request-ID")
    covered = tuple(name for name in COVERED if name != "x-request-id")
    assert explained(diagnose_request(seal_wrongly(pki.qseal, headers=headers, covered=covered))) == [
        "request-id-missing"
    ]


def test_a_request_id_that_was_lost_on_the_way_is_told_once(pki: Pki) -> None:
    message = seal_wrongly(pki.qseal, lines=without_line("x-request-id"))
    lost = message._replace(headers=tuple(header for header in message.headers if header[0] != "X-Request-ID"))
    assert explained(diagnose_request(lost)) == ["covered-absent"]


def test_a_demanded_header_that_was_not_sent_is_told(rsa_pki: Pki) -> None:
    headers = tuple(header for header in HEADERS if header[0] != "Date")
    profile = replace(PSD2_V1, name="dated", covered=(*NEEDED, "date"))
    message = seal_wrongly(rsa_pki.qseal, headers=headers, covered=NEEDED, assemble=joined("\r\n"))
    assert explained(diagnose_request(message, profile=profile)) == ["header-not-sent", "string-crlf"]


@pytest.mark.parametrize("field", [("Content-Length", "9"), ("Transfer-Encoding", "chunked")])
def test_another_length_than_the_body_s_is_told_besides(pki: Pki, field: tuple[str, str]) -> None:
    message = seal_wrongly(pki.qseal, headers=(*HEADERS, field))
    valid = diagnose_request(message)
    assert valid.outcome is Outcome.VERIFIES
    assert field[0] in valid.notes[0]
    longer = diagnose_request(message._replace(body=message.body + b"\n"))
    assert explained(longer) == ["body-newline-dropped"]
    assert longer.to_object()["notes"] == list(longer.notes)


def test_a_seal_of_another_organisation_than_the_connection_s_is_told(pki: Pki, other_qseal: Issued) -> None:
    assert diagnose_request(seal_wrongly(pki.qseal), qwac=pki.qwac.certificate).outcome is Outcome.VERIFIES
    diagnosis = diagnose_request(seal_wrongly(other_qseal), qwac=pki.qwac.certificate)
    assert explained(diagnosis) == ["seal.other-organisation"]


def forms_of(pki: Pki) -> dict[str, str]:
    pem = certificate_pem(pki.qseal.certificate)
    chain = pem + certificate_pem(pki.qseal_ca.certificate)
    return {
        "escaped": quote(pem.decode()),
        "colons": f":{encode_base64(pki.qseal.certificate.der)}:",
        "chain": b64encode(chain).decode(),
        "letters": urlsafe_b64encode(pki.qseal.certificate.der).decode(),
        "letters without padding": urlsafe_b64encode(pki.qseal.certificate.der).decode().rstrip("="),
        "commas": ", ".join([encode_base64(pki.qseal.certificate.der), encode_base64(pki.qseal_ca.certificate.der)]),
        "container": b64encode(
            pkcs7.serialize_certificates([load_der_x509_certificate(pki.qseal.certificate.der)], Encoding.DER)
        ).decode(),
    }


@pytest.mark.parametrize(
    "form", ["escaped", "colons", "chain", "letters", "letters without padding", "commas", "container"]
)
def test_a_certificate_in_a_form_that_no_dialect_has_is_read_and_told(pki: Pki, form: str) -> None:
    message = seal_wrongly(pki.qseal, covered=NEEDED)
    text = forms_of(pki)[form]
    headers = tuple((n, text if n == PSD2_V1.certificate_header else v) for n, v in message.headers)
    assert explained(diagnose_request(message._replace(headers=headers))) == ["certificate-form"]


def test_what_is_no_certificate_in_any_form_is_told_as_none(pki: Pki) -> None:
    message = seal_wrongly(pki.qseal, covered=NEEDED)
    for text in ("MIIB-_x", "MIIBx,MIIBy", b64encode(b"0\x0bno PKCS#7 at all").decode()):
        headers = tuple((n, text if n == PSD2_V1.certificate_header else v) for n, v in message.headers)
        diagnosis = diagnose_request(message._replace(headers=headers), certificates=[pki.qseal.certificate])
        assert names(diagnosis) == ["certificate-form"]
        assert "holds no certificate" in diagnosis.causes[0].evidence[0]


def test_a_signature_whose_last_quote_is_missing_is_read_and_told(pki: Pki) -> None:
    whole = 'keyId="{key_id}",algorithm="{algorithm}",headers="{names}",signature="{signature}"'
    assert explained(diagnose_request(seal_wrongly(pki.qseal, template=whole[:-1]))) == ["parameter-unclosed"]
    assert explained(diagnose_request(seal_wrongly(pki.qseal, template=whole[:-1].replace(",a", ", a")))) == [
        "parameter-unclosed"
    ]


def test_an_absent_algorithm_is_told_once(pki: Pki) -> None:
    diagnosis = diagnose_request(
        seal_wrongly(pki.qseal, template='keyId="{key_id}",headers="{names}",signature="{signature}"')
    )
    assert explained(diagnosis) == ["parameter-missing"]
    assert diagnosis.causes[0].evidence == ("algorithm",)


ENCODED = [("/a,b:c", "/a%2Cb%3Ac"), ("/a,b", "/a%2Cb"), ("/~me?x=~", "/%7Eme?x=%7E"), ("/a?x=y:z", "/a?x=y%3Az")]


@pytest.mark.parametrize(("sent", "signed"), ENCODED)
def test_characters_that_were_escaped_once_are_not_told_as_escaped_twice(pki: Pki, sent: str, signed: str) -> None:
    message = seal_wrongly(pki.qseal, target=sent, signed_target=lambda value: f"post {signed}")
    assert explained(diagnose_request(message)) == ["target-encoded-otherwise"]


DATES = [
    "2026-06-01T12:00:00.417Z", "2026-06-01T12:00:00Z", "Mon Jun 01 2026 12:00:00 GMT+0000 (Coordinated Universal Time)",
    "Mon Jun 01 2026 15:00:00 GMT+0300 (Eastern European Summer Time)", "Mon Jun  1 12:00:00 2026", "1780315200", "1780315200000",
    "Mon, 01 Jun 2026 15:00:00 +0300", "2026-06-01T14:00:00+02:00",
]  # fmt: skip


@pytest.mark.parametrize("date", DATES)
def test_a_date_as_programs_print_it_is_told(pki: Pki, date: str) -> None:
    message = seal_wrongly(pki.qseal, lines=replaced("date", lambda value: date))
    assert explained(diagnose_request(message)) == ["value-time-form"]


def test_every_order_of_a_few_query_parameters_is_tried(pki: Pki) -> None:
    message = seal_wrongly(
        pki.qseal, target="/a?e=5&a=1&d=4&b=2&c=3", signed_target=lambda value: "post /a?b=2&e=5&c=3&a=1&d=4"
    )
    assert explained(diagnose_request(message)) == ["target-query-order"]


def test_the_bound_on_work_is_told_when_it_is_reached(rsa_pki: Pki) -> None:
    diagnosis = diagnose_request(seal_wrongly(rsa_pki.qseal, string=lambda data: data[::-1]), max_work=100_000)
    assert any("not all" in text for text in diagnosis.excluded)
    assert diagnosis.tried < 20_000


def test_a_digest_that_holds_clears_the_body(pki: Pki) -> None:
    diagnosis = diagnose_request(seal_wrongly(pki.qseal, string=lambda data: data[::-1]), max_work=60_000)
    assert any("its digest is" in text for text in diagnosis.excluded)


def test_a_hash_of_the_whole_body_stands_for_no_number(pki: Pki) -> None:
    body = b'{"a":1,"b":"number ' + hashlib.sha256(b"x").hexdigest().encode() + b' 2"}'
    assert explained(
        diagnose_request(
            seal_wrongly(pki.qseal, body=body, hashed=lambda body: body.replace(b":", b": ").replace(b",", b", "))
        )
    ) == ["json-python"]


def test_an_origin_may_be_given(pki: Pki) -> None:
    assert diagnose_request(seal_wrongly(pki.qseal), origin=parse_origin("https://a")).outcome is Outcome.VERIFIES


def test_crlf_is_still_found_beside_a_whole_address(pki: Pki) -> None:
    message = seal_wrongly(pki.qseal, assemble=joined("\r\n"))
    absolute = message._replace(target=f"https://api.bank.example{message.target}")
    assert explained(diagnose_request(absolute)) == ["target-absolute", "string-crlf"]


@pytest.mark.parametrize(("signed", "more"), [("get", []), ("Get", ["method-upper-case"])])
def test_a_method_that_was_sent_in_lower_case_is_told(pki: Pki, signed: str, more: list[str]) -> None:
    message = seal_wrongly(pki.qseal, method="GET", signed_target=lambda value: value.replace("get", signed, 1))
    assert explained(diagnose_request(message._replace(method="get"))) == ["method-sent-lower-case", *more]


BARE = 'keyId="{key_id}",algorithm="{algorithm}",signature="{signature}"'
TIMED = f"{BARE},created=1780315200"


@pytest.mark.parametrize("kind", ["ec", "rsa"])
def test_headers_that_are_left_out_do_not_say_that_a_time_was_covered(pkis: dict[str, Pki], kind: str) -> None:
    for template in (BARE, TIMED):
        message = seal_wrongly(pkis[kind].qseal, covered=NEEDED, template=template)
        assert explained(diagnose_request(message)) == ["parameter-missing"]


@pytest.mark.parametrize("kind", ["ec", "rsa"])
def test_a_time_that_was_covered_is_told_where_it_is_proven_or_said(pkis: dict[str, Pki], kind: str) -> None:
    own = pkis[kind].qseal
    alone = seal_wrongly(own, covered=("date",), assemble=lambda lines: b"(created): 1780315200", template=TIMED)
    assert explained(diagnose_request(alone)) == ["parameter-missing", "time-not-allowed", "uncovered"]
    named = {
        "covered": NEEDED,
        "names": f"{' '.join(NEEDED)} (created)",
        "template": f'headers="{{names}}",{TIMED}',
        "lines": lambda lines: [*lines, ("(created)", "1780315200")],
    }
    assert explained(diagnose_request(seal_wrongly(own, **named))) == ["time-not-allowed"]
    garbled = seal_wrongly(own, **named, string=lambda data: data[::-1])
    diagnosis = diagnose_request(garbled, max_work=60_000)
    assert (diagnosis.outcome, names(diagnosis)) == (Outcome.UNEXPLAINED, ["time-not-allowed"])


@pytest.mark.parametrize("name", ["psd2-v1", "berlin-group"])
def test_nothing_is_said_of_coverage_that_is_neither_named_nor_proven(pki: Pki, name: str) -> None:
    message = seal_wrongly(pki.qseal, covered=NEEDED, template=BARE, string=lambda data: data[::-1])
    diagnosis = diagnose_request(message, profile=PROFILES[name], max_work=60_000)
    assert (diagnosis.outcome, names(diagnosis)) == (Outcome.UNEXPLAINED, ["parameter-missing"])
