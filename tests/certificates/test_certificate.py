"""What is read from a certificate or request."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, mldsa, rsa, x25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from refusals import refused
from tppkit.certificates import (
    EidasCertificate,
    KeyFacts,
    OrganizationIdentifier,
    Psd2Statement,
    Use,
    check_certificate,
    der,
    oids,
)
from tppkit.certificates.certificate import MAX_CERTIFICATE_BYTES, EidasRequest
from tppkit.certificates.key_facts import read_key_facts
from tppkit.certificates.qcstatements import PdsLocation, RoleOfPsp
from tppkit.errors import ConfigurationError, Finding, FormatError, Severity

ISSUER_ALTERNATIVE_NAME = x509.ObjectIdentifier("2.5.29.18")
BROKEN = x509.UnrecognizedExtension(ISSUER_ALTERNATIVE_NAME, b"\x30\x01")


def test_a_qwac_says_who_holds_it(pki):
    certificate = pki.qwac.certificate
    assert str(certificate.subject) == (
        "CN=tpp.test.example.com,organizationIdentifier=PSDLT-BL-LB000000,O=Example Payments TEST,C=LT"
    )
    assert certificate.organization_identifier == OrganizationIdentifier(
        "PSDLT-BL-LB000000", "PSD", "LT", "BL", "LB000000"
    )
    assert certificate.issuer == pki.qwac_ca.certificate.subject


def test_a_qwac_says_what_it_is_for(pki):
    extensions = pki.qwac.certificate.extensions
    assert extensions.key_usage == ("digitalSignature",)
    assert extensions.extended_key_usage == ("serverAuth", "clientAuth")
    assert extensions.policies == (oids.POLICY_QNCP_W_GEN,)
    assert extensions.dns_names == ("tpp.test.example.com",)
    assert extensions.critical == ("2.5.29.15",)
    assert not extensions.is_ca


def test_a_qwac_says_what_its_holder_may_do(pki):
    certificate = pki.qwac.certificate
    assert certificate.roles == ("PSP_PI", "PSP_AI")
    assert certificate.qc.psd2 == Psd2Statement(
        (RoleOfPsp("0.4.0.19495.1.2", "PSP_PI"), RoleOfPsp("0.4.0.19495.1.3", "PSP_AI")), "Bank of Lithuania", "LT-BL"
    )
    assert certificate.qc.pds == (PdsLocation("https://pki.test.example.com/pds_en.pdf", "en"),)
    assert certificate.findings == ()


def test_an_authority_is_one_and_states_no_roles(pki):
    certificate = pki.root.certificate
    assert certificate.extensions.is_ca
    assert certificate.extensions.key_usage == ("keyCertSign", "cRLSign")
    assert certificate.roles == ()


def test_the_serial_number_is_written_without_leading_zeros(issue):
    assert (issue(Use.QWAC).serial, issue(Use.QWAC).serial_hex) == (0x9FA1, "9FA1")


def test_both_ends_of_the_validity_are_valid(pki):
    certificate, second = pki.qwac.certificate, timedelta(seconds=1)
    assert certificate.not_before == datetime(2026, 6, 1, tzinfo=UTC)
    assert certificate.is_valid_at(certificate.not_before)
    assert certificate.is_valid_at(certificate.not_after.astimezone(timezone(timedelta(hours=2))))
    assert not certificate.is_valid_at(certificate.not_before - second)
    assert not certificate.is_valid_at(certificate.not_after + second)


def test_a_time_without_zone_is_refused(pki):
    with refused(ConfigurationError, "time.naive"):
        pki.qwac.certificate.is_valid_at(datetime(2026, 6, 1))


KEYS = [
    (rsa.RSAPublicNumbers(65537, (1 << 2047) + 1).public_key(), KeyFacts("rsa", 2048)),
    (ec.derive_private_key(1, ec.SECP256R1()).public_key(), KeyFacts("ec", 256, "P-256")),
    (ec.derive_private_key(1, ec.SECP384R1()).public_key(), KeyFacts("ec", 384, "P-384")),
    (ec.derive_private_key(1, ec.SECP521R1()).public_key(), KeyFacts("ec", 521, "P-521")),
    (ec.derive_private_key(1, ec.SECP256K1()).public_key(), KeyFacts("ec", 256, "secp256k1")),
    (ec.derive_private_key(1, ec.BrainpoolP256R1()).public_key(), KeyFacts("ec", 256, "brainpoolP256r1")),
    (ec.derive_private_key(1, ec.BrainpoolP384R1()).public_key(), KeyFacts("ec", 384, "brainpoolP384r1")),
    (ec.derive_private_key(1, ec.BrainpoolP512R1()).public_key(), KeyFacts("ec", 512, "brainpoolP512r1")),
    (ed25519.Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key(), KeyFacts("ed25519", 256)),
    (ed448.Ed448PrivateKey.from_private_bytes(bytes(57)).public_key(), KeyFacts("ed448", 448)),
    (x25519.X25519PrivateKey.from_private_bytes(bytes(32)).public_key(), KeyFacts("x25519", 255)),
]


@pytest.mark.parametrize(("key", "facts"), KEYS, ids=[f"{f.type} {f.curve or f.bits}" for _, f in KEYS])
def test_type_and_size_of_the_key_are_read(issue, key, facts):
    read = issue(Use.QSEALC, public_key=key)
    assert read.key == facts
    assert facts.type not in ("rsa", "ec") or read.public_key.key_size == facts.bits


def test_a_key_on_an_unknown_curve_has_no_size_and_cannot_be_loaded(pki):
    p256 = der.write_oid("1.2.840.10045.3.1.7")
    certificate = EidasCertificate.from_der(pki.qwac.certificate.der.replace(p256, p256[:-1] + b"\x7f"))
    assert certificate.key == KeyFacts("ec", oid="1.2.840.10045.3.1.127")
    with refused(FormatError, "certificate.key-unreadable"):
        certificate.public_key  # noqa: B018  # reading it is what fails


@pytest.mark.parametrize("use", Use)
def test_a_key_of_no_known_type_is_an_error_with_its_identifier(pki, use):
    whole = pki.members[use.value].certificate.der
    unknown = EidasCertificate.from_der(
        whole.replace(der.write_oid("1.2.840.10045.2.1"), der.write_oid("1.2.840.10045.2.9"))
    )
    (error,) = errors_of(unknown, use)
    assert (error.code, error.values["key"]) == ("certificate.key-unreadable", "1.2.840.10045.2.9")


@pytest.mark.parametrize(
    ("key", "name"),
    [
        (KEYS[-1][0], "x25519"),
        (mldsa.MLDSA65PrivateKey.from_seed_bytes(bytes(32)).public_key(), "ml-dsa"),
    ],
)
def test_a_key_that_makes_no_seals_or_is_not_read_yet_is_an_error_that_names_it(issue, key, name):
    (error,) = errors_of(issue(Use.QSEALC, public_key=key), Use.QSEALC)
    assert (error.code, error.values["key"]) == ("certificate.key-unreadable", name)


def test_the_keys_of_fips_205_have_their_names():
    def named(oid: str) -> str:
        encoded = der.write_sequence(der.write_sequence(der.write_oid(oid)), b"\x03\x02\x00\x00")
        return read_key_facts(encoded, der.read_whole(encoded, tag=der.SEQUENCE)).name

    assert named("2.16.840.1.101.3.4.3.20") == "slh-dsa"
    assert named("2.16.840.1.101.3.4.3.31") == "slh-dsa"


def test_a_point_that_is_not_on_the_curve_is_an_error(pki):
    qseal = pki.qseal.certificate
    point = qseal.public_key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    damaged = EidasCertificate.from_der(qseal.der.replace(point, point[:-1] + bytes([point[-1] ^ 1])))
    (error,) = errors_of(damaged, Use.QSEALC)
    assert (error.code, error.message) == ("certificate.key-unreadable", "the key (P-256) cannot be read")


@pytest.mark.parametrize("name", ["P-521", "brainpoolP384r1", "ed448"])
@pytest.mark.parametrize("use", Use)
def test_a_strong_key_with_which_nothing_here_seals_is_a_warning(issue, use, name):
    (key,) = (key for key, facts in KEYS if name in (facts.curve, facts.type))
    certificate = issue(use, public_key=key)
    (finding,) = check_certificate(certificate, as_=use, at=certificate.not_before)
    assert (finding.code, finding.severity) == ("certificate.rare-key", Severity.WARNING)
    assert name in finding.message
    assert ("ES512" in finding.message) is (name == "P-521")  # the one supported form


def errors_of(certificate: EidasCertificate, use: Use) -> list[Finding]:
    found = check_certificate(certificate, as_=use, at=certificate.not_before)
    return [finding for finding in found if finding.severity is Severity.ERROR]


@pytest.mark.parametrize(
    ("written", "instead", "reason"),
    [
        ("0603551d0f0101ff04", "0603551d0f01010004", "extension 0, critical: encoded default (counted from 0)"),
        ("170d3236", "170d5a36", "validity, not before, UtcTime: invalid value"),
    ],
)
def test_where_a_certificate_is_malformed_is_reported(pki, written, instead, reason):
    whole = pki.qwac.certificate.der
    assert bytes.fromhex(written) in whole
    damaged = whole.replace(bytes.fromhex(written), bytes.fromhex(instead))
    with pytest.raises(FormatError) as refused:
        EidasCertificate.from_der(damaged)
    assert refused.value.code == "certificate.malformed"
    assert refused.value.message == f"the certificate cannot be read: {reason}"


@pytest.mark.parametrize("use", Use)
def test_a_broken_extension_is_named_and_every_other_one_read(issue, use):
    whole, broken = issue(use), issue(use, BROKEN)
    assert [finding.code for finding in broken.findings] == ["certificate.extension-malformed"]
    for fact in ("key_usage", "extended_key_usage", "policies", "dns_names", "is_ca", "qc", "critical"):
        assert getattr(broken.extensions, fact) == getattr(whole.extensions, fact)


def test_an_authority_with_a_broken_extension_is_still_one(issue):
    assert issue(Use.QWAC, BROKEN, x509.BasicConstraints(ca=True, path_length=None)).extensions.is_ca


def test_unreadable_extensions_are_named(issue):
    garbage = x509.UnrecognizedExtension(x509.ObjectIdentifier("2.5.29.15"), b"\xff\xff")
    certificate = issue(Use.QWAC, garbage)
    assert [finding.code for finding in certificate.findings] == ["certificate.extension-malformed"]
    assert certificate.extensions.key_usage == ()


def test_an_identifier_of_an_unknown_form_is_kept_and_named(issue, pki):
    name = x509.Name([x509.NameAttribute(x509.ObjectIdentifier(oids.ORGANIZATION_IDENTIFIER), "12345987")])
    certificate = issue(Use.QWAC, subject=name)
    assert certificate.organization_identifier == OrganizationIdentifier("12345987")
    assert [finding.code for finding in certificate.findings] == ["organization-identifier.malformed"]


def test_the_organization_is_named_without_characters_that_hide_others(issue):
    attributes = [x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, name) for name in ("Pay\u202eers", "Second")]
    certificate = issue(Use.QWAC, subject=x509.Name(attributes))
    assert certificate.organization_name == "Pay\\u202eers"


def test_a_name_may_be_empty(issue):
    certificate = issue(Use.QWAC, subject=x509.Name([]))
    assert (str(certificate.subject), certificate.organization_identifier) == ("", None)
    assert certificate.organization_name is None


def test_certificates_of_the_same_bytes_are_equal_and_one_in_a_set(issue):
    first, second = issue(Use.QWAC, BROKEN), issue(Use.QWAC, BROKEN)
    again = EidasCertificate.from_der(first.der)
    assert again == first != second
    assert len({first, again, second}) == 2


def test_the_last_certificates_are_remembered_by_their_bytes_if_they_are_not_large(pki, issue):
    small, large = pki.qwac.certificate.der, issue(Use.QWAC, qc=bytes(4096)).der
    assert EidasCertificate.from_der(small) is EidasCertificate.from_der(bytearray(small))
    assert EidasCertificate.from_der(large) is not EidasCertificate.from_der(large)
    assert EidasCertificate._remembered.cache_info().maxsize == 256


def test_what_is_refused_is_refused_again(pki):
    cut = pki.qwac.certificate.der[:-1]
    for _ in range(2):
        with refused(FormatError, "certificate.malformed"):
            EidasCertificate.from_der(cut)


@pytest.mark.parametrize("read", [EidasCertificate.from_der, EidasRequest.from_der])
def test_more_bytes_than_a_certificate_has_are_refused(read):
    with refused(FormatError, "certificate.too-large"):
        read(bytes(MAX_CERTIFICATE_BYTES + 1))


def rebuilt(certificate: EidasCertificate, change) -> EidasCertificate:
    """The certificate with the parts of its signed part that `change` makes of them; the signature stays as it was."""
    whole = certificate.der
    signed, *rest = der.read_children(whole, der.read_whole(whole, tag=der.SEQUENCE))
    parts = (whole[part.offset : part.end] for part in der.read_children(whole, signed))
    outside = (whole[part.offset : part.end] for part in rest)
    return EidasCertificate.from_der(der.write_sequence(der.write_sequence(*change(*parts)), *outside))


def test_a_certificate_of_version_1_is_read(pki):
    first = rebuilt(pki.qwac.certificate, lambda version, *parts: parts[:-1])  # no version, no extensions
    for fact in ("subject", "issuer", "serial", "key", "not_before", "not_after", "organization_identifier"):
        assert getattr(first, fact) == getattr(pki.qwac.certificate, fact)
    assert first.roles == ()


@pytest.mark.parametrize("serial", [0, -1, -(2**100)])
def test_a_serial_number_that_is_not_positive_is_a_finding(issue, serial):
    certificate = rebuilt(issue(Use.QWAC), lambda version, _, *parts: (version, der.write_integer(serial), *parts))
    assert certificate.serial == serial
    (finding,) = certificate.findings
    assert (finding.code, finding.severity) == ("certificate.serial-not-positive", Severity.ERROR)
    found = check_certificate(certificate, as_=Use.QWAC, at=certificate.not_before, essential_only=True)
    assert [one.code for one in found] == ["certificate.serial-not-positive"]


def test_what_is_malformed_is_named_with_its_place(pki, issue):
    assert pki.qwac.certificate.findings == ()
    (finding,) = issue(Use.QWAC, qc=b"\x30\x02\x05\x00").findings
    assert (finding.code, finding.severity) == ("qcstatements.malformed", Severity.ERROR)
    assert finding.offset is not None
