"""The file of a form, and dialects whose digest is of that file alone."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sealing import AT, REQUEST, policy_of, seal_of, verdict, with_value

from refusals import refused
from tppkit.errors import FormatError
from tppkit.httpsig import make_digest
from tppkit.seals import DigestOf, Message, parse_profile, sign_request, verify_request, verify_request_head
from tppkit.seals.diagnose import DiagnosisOutcome, diagnose_request
from tppkit.seals.form_data import MAX_PARTS, uploaded_file

FILE = b"<Document>\r\n--not a delimiter\r\n\x00\xff</Document>\n"
TYPE = "multipart/form-data; boundary=XyZ"
TEXT_PART = b'--XyZ\r\nContent-Disposition: form-data; name="product"\r\n\r\nsepa\r\n'
DISPOSITION = b'Content-Disposition: form-data; name="pain"; filename="pain.xml"'
FILE_PART = b"--XyZ\r\n" + DISPOSITION + b"\r\nContent-Type: application/xml\r\n\r\n" + FILE + b"\r\n"
FORM = TEXT_PART + FILE_PART + b"--XyZ--\r\n"
PAGE = (Path(__file__).parents[2] / "docs/how-to/seals-in-other-formats.md").read_text("utf-8")
BULK = parse_profile(PAGE.partition("```toml\n")[2].partition("```")[0].encode())


def test_the_file_is_found_as_http_libraries_write_it():
    request = httpx.Request(
        "POST", "https://bank.example", data={"product": "sepa"}, files={"pain": ("pain.xml", FILE)}
    )
    written = uploaded_file(request.read(), request.headers["content-type"])
    curl = b"------------------------d74496d66958873e"
    for boundary in (b"XyZ", curl[2:], b"'()+_,-./:=?"):
        for end in (b"", b"\r\n"):
            body = FORM.removesuffix(b"\r\n").replace(b"--XyZ", b"--" + boundary) + end
            assert uploaded_file(body, f'Multipart/Form-Data; charset=utf-8; Boundary="{boundary.decode()}"') == FILE
    for body, content_type in ((FORM, TYPE), (FORM, None)):  # evidence may lack the header
        assert uploaded_file(body, content_type) == written == FILE
    assert uploaded_file(FORM.replace(FILE, b""), TYPE) == b""


@pytest.mark.parametrize("content_type", [None, "application/json", "text/xml; charset=utf-8"])
def test_a_body_that_is_no_form_is_signed_whole(content_type):
    assert [uploaded_file(body, content_type) for body in (b"", b"x\n", b'{"a": 1}', b"-x")] == [None] * 4


SECOND = FILE_PART.replace(b"pain", b"more")
MALFORMED: dict[str, tuple[bytes, str | None]] = {
    "another boundary": (FORM, "multipart/form-data; boundary=Xy"),
    "a boundary twice": (FORM, TYPE + "; boundary=XyZ"),
    "no boundary": (FORM, "multipart/form-data"),
    "another kind": (FORM, TYPE.replace("form-data", "mixed")),
    "declared as JSON": (FORM, "application/json"),
    "declared as a form": (b"{}", TYPE),
    "an empty body": (b"", TYPE),
    "a preamble": (b"x\r\n" + FORM, TYPE),
    "a preamble in front, undeclared": (b"--x y\r\n" + FORM, None),
    "an epilogue": (FORM + b"x", TYPE),
    "another form after it": (FORM + FORM, TYPE),
    "no end": (FORM.removesuffix(b"--\r\n"), TYPE),
    "no end at all": (FORM.partition(b"\r\n--XyZ--")[0], TYPE),
    "no part": (b"--XyZ--\r\n", TYPE),
    "the boundary in a file": (FORM.replace(b"not a delimiter", b"XyZ"), TYPE),
    "the boundary in a file, with a line feed": (FORM.replace(b"\r\n--not", b"\n--XyZ\n"), TYPE),
    "a longer boundary in a file": (FORM.replace(b"not a delimiter", b"XyZa\r\n"), TYPE),
    "line feeds": (FORM.replace(b"\r\n", b"\n"), TYPE),
    "a bare line feed in headers": (FORM.replace(b"\r\nContent-Type", b"\nContent-Type"), TYPE),
    "a folded header": (FORM.replace(b"; filename", b";\r\n filename"), TYPE),
    "a header twice": (FORM.replace(DISPOSITION, DISPOSITION + b"\r\n" + DISPOSITION.lower()), TYPE),
    "no disposition": (FORM.replace(b"Content-Disposition", b"X-Disposition"), TYPE),
    "a disposition of mail": (FORM.replace(b'form-data; name="pain"', b'attachment; name="pain"'), TYPE),
    "no name": (FORM.replace(b'name="pain"; ', b""), TYPE),
    "an encoded file name": (FORM.replace(b'filename="', b"filename*=utf-8''x; filename=\""), TYPE),
    "two file names": (FORM.replace(b"; filename", b'; filename="a"; filename'), TYPE),
    "an empty file name": (FORM.replace(b'"pain.xml"', b'""'), TYPE),
    "an escaped quote": (FORM.replace(b"pain.xml", b'a\\"; name=\\"b'), TYPE),
    "a transfer encoding": (FORM.replace(DISPOSITION, DISPOSITION + b"\r\nContent-Transfer-Encoding: base64"), TYPE),
    "a nested form": (FORM.replace(b"application/xml", b"multipart/mixed; boundary=b"), TYPE),
    "a part without headers": (FORM.replace(b'\r\nContent-Disposition: form-data; name="product"', b""), TYPE),
    "long headers": (FORM.replace(b"pain.xml", b"p" * 5000), TYPE),
    "too many parts": (TEXT_PART * MAX_PARTS + FILE_PART + b"--XyZ--", TYPE),
    "far too many parts": (TEXT_PART * 5000 + FILE_PART + b"--XyZ--", TYPE),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_form_that_two_readers_could_read_in_two_ways_is_refused(case):
    with refused(FormatError, "form-data.malformed"):
        uploaded_file(*MALFORMED[case])


def test_a_form_has_exactly_one_file():
    with refused(FormatError, "form-data.no-file"):
        uploaded_file(TEXT_PART + b"--XyZ--", TYPE)
    for parts in (SECOND + FORM, FORM.replace(b"--XyZ--", SECOND + b"--XyZ--")):
        with refused(FormatError, "form-data.several-files"):
            uploaded_file(parts, TYPE)


@given(st.lists(st.sampled_from([b"--XyZ", b"\r\n", b"--", DISPOSITION, b"\n", b":", b'"', b"a", FILE])), st.booleans())
def test_only_format_error_escapes(pieces, declared):
    with suppress(FormatError):
        uploaded_file(b"--XyZ\r\n" + b"".join(pieces), TYPE if declared else None)


def upload(body: bytes = FORM, content_type: str = TYPE) -> Message:
    date = ("Date", "Mon, 01 Jun 2026 12:00:00 GMT")
    return Message("POST", "/v1/bulk-payments", (("Content-Type", content_type), date), body)


def test_a_seal_covers_the_file_and_the_verifier_returns_only_that(pki):
    assert BULK.digest_of is DigestOf.FIRST_FILE
    sealed, policy = sign_request(upload(), seal=seal_of(BULK, pki.qseal)), policy_of(BULK, pki)
    assert sealed.values("digest") == (make_digest(FILE),)
    whole = verify_request(sealed, qwac=pki.qwac.certificate, at=AT, policy=policy)
    head = verify_request_head(sealed._replace(body=b""), qwac=pki.qwac.certificate, at=AT, policy=policy)
    for verified in (whole, head.verify_body(sealed.body)):
        assert (verified.body, verified.covers_file_only) == (FILE, True)
        assert verified.unverified_message.body == FORM
    other_field = sealed._replace(body=FORM.replace(b"sepa", b"SEPA"))  # which is not signed, so it is not in `body`
    assert verify_request(other_field, qwac=None, at=AT, policy=policy).body == FILE
    assert verdict(sealed._replace(body=FORM.replace(b"Document", b"document")), policy) == "digest.mismatch"
    assert verdict(sealed._replace(body=FILE), policy) == "form-data.malformed"
    assert (
        verdict(sealed._replace(body=FORM.replace(b"--XyZ--", SECOND + b"--XyZ--")), policy)
        == "form-data.several-files"
    )
    boundary = with_value(sealed, "content-type", "multipart/form-data; boundary=other")
    assert verdict(boundary, policy) == "form-data.malformed"
    without_form = sign_request(upload(REQUEST.body, "application/json"), seal=seal_of(BULK, pki.qseal))
    json = verify_request(without_form, qwac=None, at=AT, policy=policy)
    assert (json.body, json.covers_file_only) == (REQUEST.body, False)


def test_a_diagnosis_compares_the_file_with_the_digest(pki):
    sealed = sign_request(upload(), seal=seal_of(BULK, pki.qseal))
    right = diagnose_request(sealed, certificates=(), profile=BULK)
    assert right.outcome is DiagnosisOutcome.VERIFIES
    for body in (FORM.replace(b"sepa", b"SEPA"), FORM.replace(b"<Document>", b"<document>"), FILE, b"--", b""):
        other = diagnose_request(sealed._replace(body=body), certificates=(), profile=BULK)
        assert (other.outcome is DiagnosisOutcome.VERIFIES) is (b"SEPA" in body)
