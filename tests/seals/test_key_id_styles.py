"""keyId in every dialect's style: what is written, and what of it is read back."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st
from sealing import (
    AT,
    ORGANIZATION_IDENTIFIER,
    QTSP,
    header,
    issued_by,
    policy_of,
    request_for,
    seal_of,
    verdict,
)
from sealing import ISSUER_KEY as KEY
from sealing import check_key_id as check

from refusals import refused
from tppkit.errors import ConfigurationError, FormatError
from tppkit.httpsig import KeySigner
from tppkit.httpsig.cavage import parse_signature_header
from tppkit.seals import PROFILES, KeyIdForm, KeyIdStyle, Radix, Seal, sign_request
from tppkit.seals.key_id import make_key_id

JAVA = KeyIdStyle(radix=Radix.LOWER, percent=False)
ADORSYS = PROFILES["adorsys"].key_id
RABOBANK = PROFILES["rabobank"].key_id
ING = PROFILES["ing-token"].key_id
CLIENT_ID, URL = PROFILES["chebanca"].key_id, PROFILES["stet"].key_id


NEWLINE = issued_by((NameOID.COUNTRY_NAME, "DE"), (NameOID.ORGANIZATION_NAME, "ador\nsys"))


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        (KeyIdStyle(), "SN=9FA1,CA=CN=Seal%20CA,1.2.840.113549.1.9.1=#161063614074727573742e6578616d706c65,"
                       "2.5.4.97=#0c075641544c542d31,O=Trust%20Services,C=LT"),
        (JAVA, "SN=9fa1,CA=CN=Seal CA,1.2.840.113549.1.9.1=#161063614074727573742e6578616d706c65,"
               "2.5.4.97=#0c075641544c542d31,O=Trust Services,C=LT"),
        (KeyIdStyle(unknown_as_text=True), "SN=9FA1,CA=CN=Seal%20CA,1.2.840.113549.1.9.1=ca@trust.example,"
                                           "2.5.4.97=VATLT-1,O=Trust%20Services,C=LT"),
        (KeyIdStyle(root_first=True, unknown_as_text=True), "SN=9FA1,CA=C=LT,O=Trust%20Services,2.5.4.97=VATLT-1,"
                                                            "1.2.840.113549.1.9.1=ca@trust.example,CN=Seal%20CA"),
        (RABOBANK, "40865"),
        (KeyIdStyle(form=KeyIdForm.SERIAL), "9FA1"),
    ],
    ids=["Berlin Group", "Java", "unknown attributes as text", "root first", "decimal", "serial alone"],
)  # fmt: skip
def test_a_key_id_is_written_in_each_style_and_read_back(style, expected):
    assert make_key_id(QTSP, style=style) == expected
    assert check(expected, QTSP, style) == "names it"


@pytest.mark.parametrize(
    ("text", "style", "code"),
    [
        *((text, RABOBANK, "names it") for text in ("40865", "040865", "0040865")),
        *((text, ING, "names it") for text in (
            "SN=9FA1", "SN=9fa1", "SN=9FA1,CA=CN=Seal CA,E=ca@trust.example,2.5.4.97=VATLT-1,O=Trust Services,C=LT",
        )),
        *((text, RABOBANK, "key-id.malformed") for text in ("9FA1", "", "-40865", "1" * 65, "SN=40865,CA=CN=A", "٤٠٨٦٥")),
        ("40866", RABOBANK, "key-id.mismatch"),
        ("SN=40865", ING, "key-id.mismatch"),  # read as hexadecimal: no guess at what was meant
        ("SN=9FA1", KeyIdStyle(), "key-id.malformed"),
        ("SN=9FA1,CA=CN=Another", ING, "key-id.mismatch"),
        ("SN=40865,CA=C=LT", KeyIdStyle(radix=Radix.DECIMAL), "key-id.mismatch"),
        ("SN=9FA1,CA=C=LT", KeyIdStyle(radix=Radix.DECIMAL), "key-id.malformed"),
        *((text, CLIENT_ID, "key-id.malformed") for text in ("", 'a"b', "a\nb", "ü", "x" * 2049)),
        *((text, URL, "key-id.malformed") for text in (
            "ftp://tpp.example/x", "file:///etc/passwd", "https://tpp.example/a b", "https://",
        )),
    ],
)  # fmt: skip
def test_a_key_id_is_read_in_its_style_and_in_no_other(text, style, code):
    assert check(text, QTSP, style) == code


@pytest.mark.parametrize("style", [KeyIdStyle(), JAVA, ADORSYS, KeyIdStyle(unknown_as_text=True, percent=False)])
def test_a_line_break_in_an_issuers_name_never_reaches_a_header(style):
    key_id = make_key_id(NEWLINE, style=style)
    assert key_id.isascii()
    assert key_id.isprintable()
    assert check(key_id, NEWLINE, style) == "names it"


def test_a_line_break_is_left_out_where_a_verifier_does_also_of_what_is_in_hexadecimal():
    assert make_key_id(NEWLINE, style=ADORSYS) == "SN=9fa1,CA=O=adorsys,C=DE"
    assert check("SN=9FA1,CA=O=adorsys,C=DE", NEWLINE, KeyIdStyle()) == "key-id.mismatch"
    issued = issued_by((NameOID.ORGANIZATION_NAME, "ador\nsys"), (ORGANIZATION_IDENTIFIER, "PSDDE-\nBAFIN-1"))
    key_id = make_key_id(issued, style=ADORSYS)
    assert key_id == "SN=9fa1,CA=2.5.4.97=#0c0e50534444452d0a424146494e2d31,O=adorsys"  # as Java prints it
    assert check(key_id, issued, ADORSYS) == "names it"
    assert check(key_id.replace("ador", "odor"), issued, ADORSYS) == "key-id.mismatch"


def test_a_backslash_is_read_as_java_prints_it_if_nothing_is_decoded():
    # WSO2's SignatureValidationExecutor compares the text with X500Principal.getName(), as it is.
    issued = issued_by((NameOID.COUNTRY_NAME, "DE"), (NameOID.ORGANIZATION_NAME, "D-Trust, GmbH"))
    assert make_key_id(issued, style=PROFILES["wso2"].key_id) == "SN=9fa1,CA=O=D-Trust\\, GmbH,C=DE"
    assert make_key_id(issued, style=KeyIdStyle()) == "SN=9FA1,CA=O=D-Trust%5C,%20GmbH,C=DE"


def test_a_seal_of_an_issuer_with_a_line_break_forges_no_header():
    for name in ("psd2-v1", "adorsys", "wso2"):
        row = PROFILES[name]
        seal = Seal(NEWLINE, KeySigner(KEY), profile=row)
        for _, value in sign_request(request_for(row), seal=seal, at=AT).headers:
            assert "\n" not in value
            assert "\r" not in value


@pytest.mark.parametrize(
    ("style", "text", "error", "code"),
    [
        (CLIENT_ID, "a\r\nX-Evil: 1", FormatError, "key-id.malformed"),
        (CLIENT_ID, 'a",algorithm="x', FormatError, "key-id.malformed"),
        (URL, "https://a/\n", FormatError, "key-id.malformed"),
        *((style, None, ConfigurationError, "seal.key-id-needed") for style in (CLIENT_ID, URL)),
    ],
)
def test_a_text_that_only_the_bank_knows_must_be_given_and_not_leave_its_parameter(style, text, error, code):
    with refused(error, code):
        make_key_id(QTSP, style=style, text=text)


STYLES = [row.key_id for row in PROFILES.values() if row.key_id.form in (KeyIdForm.CERTIFICATE, KeyIdForm.SERIAL)]


@given(
    organization=st.text(min_size=1, max_size=16),
    name=st.text(alphabet="Aa ,+=#\\\"<>;%\n\t'é€", min_size=1, max_size=16),
    serial=st.integers(1, 2**159 - 1),
    style=st.sampled_from(STYLES) | st.builds(
        KeyIdStyle, radix=st.sampled_from(Radix), percent=st.booleans(), unknown_as_text=st.booleans(),
        root_first=st.booleans(),
    ),
)  # fmt: skip
def test_every_key_id_that_is_written_names_its_certificate_and_fits_the_header(organization, name, serial, style):
    certificate = issued_by(
        (NameOID.ORGANIZATION_NAME, organization), (ORGANIZATION_IDENTIFIER, name), (NameOID.COMMON_NAME, name),
        serial=serial,
    )  # fmt: skip
    key_id = make_key_id(certificate, style=style)
    value = f'keyId="{key_id}",algorithm="x",headers="digest",signature="AAAA"'
    assert parse_signature_header(value).key_id == key_id
    assert check(key_id, certificate, style) == "names it"
    escaped = check(quote(key_id, safe="=,"), certificate, style)
    assert escaped in {"names it", "key-id.malformed", "key-id.mismatch"}


@given(
    st.text() | st.text(alphabet='SN=9FA1,C+\\"#%02 .:/htps', max_size=80), st.sampled_from([*STYLES, CLIENT_ID, URL])
)
def test_any_text_is_accepted_or_refused_and_nothing_else(text, style):
    assert check(text, QTSP, style) in {"names it", "key-id.malformed", "key-id.mismatch"}


@pytest.mark.parametrize("row", [row for row in PROFILES.values() if row.key_id in STYLES], ids=lambda row: row.name)
def test_a_seal_that_names_another_certificate_is_refused(row, rsa_pki):
    ours = seal_of(row, rsa_pki.qseal)
    theirs = rsa_pki.issue_qseal(rsa_pki.provider, label="another").certificate
    key_id = make_key_id(rsa_pki.qseal.certificate, style=row.key_id)
    ours._head = ours._head.replace(key_id, make_key_id(theirs, style=row.key_id))
    sealed = sign_request(request_for(row), seal=ours, at=AT)
    assert make_key_id(theirs, style=row.key_id) in header(sealed, row.carrier)
    assert verdict(sealed, policy_of(row, rsa_pki)) == "key-id.mismatch"


@pytest.mark.parametrize("style", [JAVA, ADORSYS, KeyIdStyle()], ids=["Java", "adorsys", "Berlin Group"])
@pytest.mark.parametrize(
    "organisation",
    [
        "Söhne 100%41",
        'Q"uote 50%25',
        "100%25 AG",
        "100% AG",
        "Bank %2C x",
        "Smith, Jones",
        "a+b",
        "back\\slash",
        "a;b<c>d",
        "#hash",
    ],
)
def test_a_sign_with_a_meaning_in_an_issuers_name_is_read_back(organisation, style):
    issued = issued_by((NameOID.COUNTRY_NAME, "DE"), (NameOID.ORGANIZATION_NAME, organisation))
    assert check(make_key_id(issued, style=style), issued, style) == "names it"
