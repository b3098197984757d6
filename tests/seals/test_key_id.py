"""keyId: how it names a certificate, in every style that banks and providers write."""

from __future__ import annotations

import subprocess
from urllib.parse import quote

import pytest
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st
from sealing import (
    AT,
    ORGANIZATION_IDENTIFIER,
    QTSP,
    REQUEST,
    TEMPLATE,
    fresh_policy,
    header,
    issued_by,
    policy_of,
    request_for,
    seal_by_hand,
    seal_of,
    verdict,
)
from sealing import ISSUER_KEY as KEY
from sealing import check_key_id as check

from programs import needed
from refusals import refused
from tppkit.certificates import EidasCertificate
from tppkit.errors import ConfigurationError, FormatError, VerificationError
from tppkit.httpsig import KeySigner
from tppkit.httpsig.cavage import parse_signature_header
from tppkit.seals import PROFILES, KeyIdForm, KeyIdStyle, Radix, Seal, sign_request
from tppkit.seals.key_id import make_key_id, verify_key_id

D_TRUST = issued_by(
    (NameOID.COUNTRY_NAME, "DE"),
    (NameOID.ORGANIZATION_NAME, "D-Trust GmbH"),
    (NameOID.COMMON_NAME, "D-TRUST CA 2-1 2015"),
)


def test_a_key_id_is_written_as_the_guidelines_show_it_and_attributes_without_a_name_as_hexadecimal_der():
    assert make_key_id(D_TRUST) == "SN=9FA1,CA=CN=D-TRUST%20CA%202-1%202015,O=D-Trust%20GmbH,C=DE"
    assert ",2.5.4.97=#0c075641544c542d31," in make_key_id(QTSP)


@pytest.mark.parametrize(
    ("serial", "verdict"),
    [
        *((one, "names it") for one in ("9FA1", "9fa1", "9Fa1", "009FA1", "0" * 60 + "9FA1")),
        *((one, "key-id.mismatch") for one in ("40865", "9FA2", "0", "9FA10")),
    ],
)
def test_a_serial_is_compared_as_a_number(serial, verdict):
    assert check(f"SN={serial},CA=CN=D-TRUST CA 2-1 2015,O=D-Trust GmbH,C=DE", D_TRUST) == verdict


SAME = (
    "CN=D-TRUST CA 2-1 2015,O=D-Trust GmbH,C=DE",
    "CN=D-TRUST CA 2-1 2015, O=D-Trust GmbH, C=DE",
    "CN=D-TRUST%20CA%202-1%202015,O=D-Trust%20GmbH,C=DE",
    "CN=D-TRUST%20CA%202-1%202015,%20O=D-Trust%20GmbH,%20C=DE",
    "CN%3DD-TRUST%20CA%202-1%202015%2CO%3DD-Trust%20GmbH%2CC%3DDE",
    "C=DE,O=D-Trust GmbH,CN=D-TRUST CA 2-1 2015",
    "cn=D-TRUST CA 2-1 2015,o=D-Trust GmbH,c=DE",
    "2.5.4.3=D-TRUST CA 2-1 2015,2.5.4.10=D-Trust GmbH,2.5.4.6=DE",
    "CN=d-trust ca 2-1 2015,O=D-TRUST GMBH,C=de",
    "CN=D-TRUST  CA 2-1   2015,O= D-Trust GmbH ,C=DE",
    "CN=D-TRUST\\20CA 2-1 2015,O=D-Trust GmbH,C=DE",
)
OTHERS = (
    "CN=D-TRUST CA 2-1 2016,O=D-Trust GmbH,C=DE",
    "CN=D-TRUST CA 2-1 2015,O=D-Trust GmbH",
    "CN=D-TRUST CA 2-1 2015,O=D-Trust GmbH,C=DE,C=DE",
    "O=D-Trust GmbH,CN=D-TRUST CA 2-1 2015,C=DE",
    "CN=D-TRUST CA 2-1 2015+O=D-Trust GmbH,C=DE",
    "CN=D-TRUSTCA2-12015,O=D-Trust GmbH,C=DE",
    "OU=D-TRUST CA 2-1 2015,O=D-Trust GmbH,C=DE",
)
MALFORMED = (
    "", "SN=,CA=CN=A", "SN=9FA1,CA=", "SN=9FA1;CA=CN=A", "SN=0x9FA1,CA=CN=A", "SN= 9FA1,CA=CN=A", "sn=9FA1,ca=CN=A",
    "SN=-9FA1,CA=CN=A", f"SN={'0' * 65},CA=CN=A", "CA=CN=A,SN=9FA1", "SN=9FA1,CA=D-Trust", "SN=9FA1,CA=CN=A,",
    "SN=9FA1,CA=/x/C=DE",        "SN=9FA1,CA=XX=A", "SN=9FA1,CA=OID.=A", 'SN=9FA1,CA=CN="A', "SN=9FA1,CA=/",
    "SN=9FA1,CA=CN=A\\", "SN=9FA1,CA=CN=A\nO=B",
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((f"SN=9FA1,CA={issuer}", "names it") for issuer in SAME),
        *((f"SN=9FA1,CA={issuer}", "key-id.mismatch") for issuer in OTHERS),
        *((text, "key-id.malformed") for text in MALFORMED),
    ],
)
def test_an_issuer_is_accepted_in_every_style_of_the_same_name_and_no_other(text, expected):
    assert check(text, D_TRUST) == expected


SEPARATORS = issued_by(
    (NameOID.COUNTRY_NAME, "DE"), (NameOID.ORGANIZATION_NAME, "D-Trust, GmbH + Co"), (NameOID.COMMON_NAME, "CA 1")
)
STYLES: dict[tuple[EidasCertificate, str, str], tuple[str, ...]] = {
    # Attributes without a name in RFC 4514.
    (QTSP, "Seal", "Deal"): (
        "CN=Seal CA,E=ca@trust.example,organizationIdentifier=VATLT-1,O=Trust Services,C=LT",
        "CN=Seal CA,emailAddress=ca@trust.example,2.5.4.97=VATLT-1,O=Trust Services,C=LT",
        "CN=Seal CA,1.2.840.113549.1.9.1=ca@trust.example,2.5.4.97=#0c075641544c542d31,O=Trust Services,C=LT",
        "CN=Seal CA,1.2.840.113549.1.9.1=#161063614074727573742e6578616d706c65,2.5.4.97=#13075641544C542D31,O=Trust Services,C=LT",
        "C=LT,O=Trust Services,organizationIdentifier=VATLT-1,EMAILADDRESS=ca@trust.example,CN=Seal CA",
        "CN=Seal CA,OID.1.2.840.113549.1.9.1=ca@trust.example,oid.2.5.4.97=VATLT-1,O=Trust Services,C=LT",
        "/C=LT/O=Trust Services/2.5.4.97=VATLT-1/emailAddress=ca@trust.example/CN=Seal CA",
    ),
    (SEPARATORS, "GmbH", "AG"): (
        "CN=CA%201,O=%22D-Trust,%20GmbH%20%2B%20Co%22,C=DE",
        'CN=CA 1,O="D-Trust, GmbH + Co",C=DE',
        "CN=CA+1,O=D-Trust%5C,+GmbH+%5C%2B+Co,C=DE",
        "CN%3DCA+1%2CO%3DD-Trust%5C%2C+GmbH+%5C%2B+Co%2CC%3DDE",
        "CN=CA 1,O=D-Trust\\2C GmbH \\2B Co,C=DE",
        "/C=DE/O=D-Trust, GmbH + Co/CN=CA 1",
        "/C=DE/O=D-Trust\\, GmbH \\+ Co/CN=CA 1",
        "/C=DE/O=D-Trust%2C%20GmbH%20%2B%20Co/CN=CA%201",
        "/C=DE/O=D-Trust,+GmbH+%2B+Co/CN=CA+1",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("of", "issuer"), [(of, issuer) for of, issuers in STYLES.items() for issuer in issuers])
def test_an_issuer_of_any_attributes_and_separators_is_accepted_in_every_style(of, issuer):
    certificate, old, new = of
    assert check(f"SN=9FA1,CA={issuer}", certificate) == check(f"SN=9FA1, CA={issuer}", certificate) == "names it"
    assert check(f"SN=9FA1,CA={issuer.replace(old, new)}", certificate) == "key-id.mismatch"


def test_separators_within_and_between_attributes_are_distinguished():
    one = issued_by((NameOID.COUNTRY_NAME, "DE"), (NameOID.ORGANIZATION_NAME, "A/B"))
    two = issued_by((NameOID.COUNTRY_NAME, "DE"), (NameOID.ORGANIZATION_NAME, "A"), (NameOID.COMMON_NAME, "B"))
    assert check("SN=9FA1,CA=/C=DE/O=A/B", one) == check("SN=9FA1,CA=/C=DE/O=A/CN=B", two) == "names it"
    assert check("SN=9FA1,CA=/C=DE/O=A, CN=B", two) == "names it"
    joined = issued_by((NameOID.COUNTRY_NAME, "DE"), (NameOID.ORGANIZATION_NAME, "A,CN=x"))
    separate = issued_by((NameOID.COUNTRY_NAME, "DE"), (NameOID.ORGANIZATION_NAME, "A"), (NameOID.COMMON_NAME, "x"))
    for other in (joined, separate):
        assert check("SN=9FA1,CA=/C=DE/O=A\\/CN=x", other) == "key-id.mismatch"
    one = issued_by((NameOID.ORGANIZATION_NAME, "A,O=B"))
    two = issued_by((NameOID.ORGANIZATION_NAME, "B"), (NameOID.ORGANIZATION_NAME, "A"))
    assert check(make_key_id(one), two) == check(make_key_id(two), one) == "key-id.mismatch"


@pytest.mark.parametrize("organization", ["A\\", "A\\\\", "A\\, B", "A\\\\, B", "\\A\\2C"])
def test_in_one_line_a_backslash_is_itself(organization):
    certificate = issued_by(
        (NameOID.COUNTRY_NAME, "DE"), (NameOID.ORGANIZATION_NAME, organization), (NameOID.COMMON_NAME, "x")
    )
    assert check(f"SN=9FA1,CA=/C=DE/O={organization}/CN=x", certificate) == "names it"


@pytest.mark.parametrize(
    "organization", ["Köln Trust", "Łódź + Co, S.A.", "信託", "a\nb\x7f", "A\\x41B", "Å/Ö 🏦", "Trust A/S"]
)
def test_what_openssl_writes_in_one_line_names_its_certificate(organization):
    certificate, other = (
        issued_by((NameOID.COUNTRY_NAME, "DE"), (NameOID.ORGANIZATION_NAME, name), (NameOID.COMMON_NAME, "CA 1"))
        for name in (organization, f"{organization}x")
    )
    command = [needed("openssl"), "x509", "-inform", "DER", "-noout", "-issuer", "-nameopt", "compat"]
    run = subprocess.run(command, input=certificate.der, capture_output=True, check=True, timeout=20)
    issuer = run.stdout.decode("ascii").strip().removeprefix("issuer=").lstrip()
    value = TEMPLATE.format(key_id=f"SN=9FA1,CA={issuer}", algorithm="x", headers="digest", signature="AAAA")
    key_id = parse_signature_header(value).key_id
    assert (check(key_id, certificate), check(key_id, other)) == ("names it", "key-id.mismatch")


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("A\\/CN=B", "A/CN=B"), ("A\\+CN=B", "A+CN=B"), ("\\2C\\/CN=\\xC3\\xB6\\+CN=B", "\\2C/CN=ö+CN=B"),
        ("A\\\\/CN=B", "A\\/CN=B"), ("A\\/C=DE\\/O=B", "A/C=DE/O=B"),
    ],
)  # fmt: skip
def test_in_one_line_of_openssl_3_a_slash_behind_a_backslash_separates_nothing(written, value):
    def of(*organizations: str) -> EidasCertificate:
        values = [(NameOID.ORGANIZATION_NAME, organization) for organization in organizations]
        return issued_by((NameOID.COUNTRY_NAME, "DE"), *values, (NameOID.COMMON_NAME, "CA"))

    key_id = f"SN=9FA1,CA=/C=DE/O={written}/CN=CA"
    assert check(key_id, of(value)) == "names it"
    for other in (value.replace("/", ","), value.replace("+", ","), value.replace("2C", ","), f"{value}/CN=CA"):
        assert other == value or check(key_id, of(other)) == "key-id.mismatch"


@pytest.mark.parametrize(
    ("written", "names"),
    [
        *((f"/O=K{byte}", ("K\ufffd", "Kö")) for byte in ("\\xFF", "\\xFE", "%FF", "%FE", "\\xC3\\B6")),
        *((issuer, ("Köln",)) for issuer in ("/O=K\\xC3ln", "/O=K\\xF6ln", "/O=K\\xC", "/O=Kln")),
    ],
)
def test_in_one_line_bytes_that_are_not_utf_8_become_no_character(written, names):
    for name in names:
        assert check(f"SN=9FA1,CA={written}", issued_by((NameOID.ORGANIZATION_NAME, name))) == "key-id.mismatch"


@pytest.mark.parametrize(
    ("written", "value", "others"),
    [
        ("A\\x2CCN=B", "A,CN=B", ("A", "B")),
        ("A\\x2bCN=B", "A+CN=B", ("A", "B")),
        ("A\\x5C2CB", "A\\2CB", ("A,B",)),
        ("A\\x5C\\x2FB", "A\\/B", ("A/B",)),
        ("A\\x5CxC3\\x5CxB6", "A\\xC3\\xB6", ("Aö",)),
        ("\\x230C0141", "#0C0141", ("A",)),
        ("\\x22A\\x22", '"A"', ("A",)),
    ],
)
def test_in_one_line_what_a_byte_encodes_is_a_part_of_the_value(written, value, others):
    def of(organization: str, *names: str) -> EidasCertificate:
        pairs = [(NameOID.COMMON_NAME, name) for name in (*names, "CA")]
        return issued_by((NameOID.COUNTRY_NAME, "DE"), (NameOID.ORGANIZATION_NAME, organization), *pairs)

    key_id = f"SN=9FA1,CA=/C=DE/O={written}/CN=CA"
    assert check(key_id, of(value)) == "names it"
    assert check(key_id, of(*others)) == "key-id.mismatch"


@pytest.mark.parametrize("value", ["100% sure", "100%41"])
def test_an_issuer_with_a_percent_sign_is_recognised_unescaped(value):
    certificate = issued_by((NameOID.ORGANIZATION_NAME, value))
    assert check(f"SN=9FA1,CA=O={value}", certificate) == "names it"


def test_a_refusal_names_both_serials():
    with pytest.raises(VerificationError) as caught:
        verify_key_id("SN=AB12,CA=CN=A", D_TRUST)
    assert "AB12" in caught.value.message
    assert "9FA1" in caught.value.message


def test_a_key_id_in_another_style_verifies_in_a_request(pki, seal):
    ours = parse_signature_header(header(sign_request(REQUEST, seal=seal), "Signature")).key_id
    issuer = pki.qseal.certificate.issuer
    java = f"SN={pki.qseal.certificate.serial:x},CA={issuer.rfc4514()}"
    openssl = f"SN=00{pki.qseal.certificate.serial:x},CA={', '.join(reversed(str(issuer).split(',')))}"
    for key_id in (ours, java, openssl):
        assert verdict(seal_by_hand(REQUEST, pki.qseal, key_id=key_id), fresh_policy(pki)) == "holds"


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


ROW_STYLES = [row.key_id for row in PROFILES.values() if row.key_id.form in (KeyIdForm.CERTIFICATE, KeyIdForm.SERIAL)]


@given(
    organization=st.text(min_size=1, max_size=16),
    name=st.text(alphabet="Aa ,+=#\\\"<>;%\n\t'é€", min_size=1, max_size=16),
    serial=st.integers(1, 2**159 - 1),
    style=st.sampled_from(ROW_STYLES) | st.builds(
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
    st.text() | st.text(alphabet='SN=9FA1,C+\\"#%02 .:/htps', max_size=80),
    st.sampled_from([*ROW_STYLES, CLIENT_ID, URL]),
)
def test_any_text_is_accepted_or_refused_and_nothing_else(text, style):
    assert check(text, QTSP, style) in {"names it", "key-id.malformed", "key-id.mismatch"}


@pytest.mark.parametrize(
    "row", [row for row in PROFILES.values() if row.key_id in ROW_STYLES], ids=lambda row: row.name
)
def test_a_seal_that_names_another_certificate_is_refused(row, rsa_pki):
    ours = seal_of(row, rsa_pki.qseal)
    theirs = rsa_pki.issue_qseal(rsa_pki.provider, label="another").certificate
    key_id = make_key_id(rsa_pki.qseal.certificate, style=row.key_id)
    ours._head = ours._head.replace(key_id, make_key_id(theirs, style=row.key_id))
    sealed = sign_request(request_for(row), seal=ours, at=AT)
    assert make_key_id(theirs, style=row.key_id) in header(sealed, row.carrier)
    assert verdict(sealed, policy_of(row, rsa_pki)) == "key-id.mismatch"


MEANINGFUL = (
    "Söhne 100%41", 'Q"uote 50%25', "100%25 AG", "100% AG", "Bank %2C x", "Smith, Jones", "a+b", "back\\slash", "a;b<c>d", "#hash",
)  # fmt: skip


@pytest.mark.parametrize("organisation", MEANINGFUL)
def test_a_sign_with_a_meaning_in_an_issuers_name_is_read_back(organisation):
    issued = issued_by((NameOID.COUNTRY_NAME, "DE"), (NameOID.ORGANIZATION_NAME, organisation))
    for style in (JAVA, ADORSYS, KeyIdStyle()):
        assert check(make_key_id(issued, style=style), issued, style) == "names it", style
