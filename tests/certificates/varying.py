"""Certificates of one provider that differ in what a test says, and in nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import AuthorityInformationAccessOID, ExtendedKeyUsageOID

from tppkit.certificates import EidasCertificate, Psd2Statement, der, oids
from tppkit.certificates.qcstatements import LimitValue, RoleOfPsp
from tppkit.certificates.write_qcstatements import write_qc_statements
from tppkit.testpki.profiles import key_usage

START = datetime(2026, 1, 1, tzinfo=UTC)
CA_KEY = ec.derive_private_key(7, ec.SECP256R1())
KEYS = {number: ec.derive_private_key(number, ec.SECP256R1()) for number in range(11, 14)}
RSA_KEY = rsa.generate_private_key(65537, 2048)
PI, AI = RoleOfPsp("0.4.0.19495.1.2", "PSP_PI"), RoleOfPsp("0.4.0.19495.1.3", "PSP_AI")
NAME = (("2.5.4.6", "LT"), ("2.5.4.10", "Provider TEST"), (oids.ORGANIZATION_IDENTIFIER, "PSDLT-BL-LB000000"))


@dataclass(frozen=True)
class Variant:
    """What stands in a certificate; the defaults are a good QWAC's."""

    name: Sequence[tuple[str, str]] = (*NAME, ("2.5.4.3", "tpp.test.example"))
    issuer: str = "Test CA"
    key: object = KEYS[11]
    serial: int = 0x10
    not_before: datetime = START
    not_after: datetime = START + timedelta(days=365)
    qc_type: str = "web"
    compliance: bool = True
    roles: tuple[RoleOfPsp, ...] | None = (PI, AI)
    nca: tuple[str, str] = ("Bank of Lithuania", "LT-BL")
    usage: tuple[str, ...] = ("digital_signature",)
    extended: tuple[x509.ObjectIdentifier, ...] = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
    names: tuple[str, ...] = ("tpp.test.example",)
    policies: tuple[str, ...] = (oids.POLICY_QNCP_W_GEN,)
    ocsp: str = "http://pki.test.example/ocsp"
    authority_key: bytes = b"authority"
    qc: bytes | None = None

    def make(self, **changes: object) -> EidasCertificate:
        """The certificate, with these fields changed first."""
        return _make(replace(self, **changes))  # type: ignore[arg-type]


QWAC = Variant()
QSEALC = Variant(
    name=(*NAME, ("2.5.4.3", "Provider TEST")), key=KEYS[12], serial=0x20, qc_type="eseal", usage=("content_commitment",),
    extended=(), names=(), policies=(oids.POLICY_QCP_L,),
)  # fmt: skip


def name_of(*attributes: tuple[str, str]) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.ObjectIdentifier(oid), value) for oid, value in attributes])


def countries(codes: Sequence[str]) -> bytes:
    return der.write_sequence(*(der.write_text(code, tag=der.PRINTABLE_STRING) for code in codes))


def monetary_value(limit: LimitValue) -> bytes:
    number = limit.currency.isdigit()
    text = (
        der.write_integer(int(limit.currency)) if number else der.write_text(limit.currency, tag=der.PRINTABLE_STRING)
    )
    return der.write_sequence(text, der.write_integer(limit.amount), der.write_integer(limit.exponent))


# Statements that no certificate of the test PKI has.
RARE = {
    "limit_value": (oids.QC_LIMIT_VALUE, monetary_value),
    "retention_years": (oids.QC_RETENTION_PERIOD, der.write_integer),
    "cc_legislation": (oids.QC_CC_LEGISLATION, countries),
    "identification_methods": (oids.QC_IDENTIFICATION_METHOD, lambda methods: der.write_sequence(*map(der.write_oid, methods))),
    "qscd_legislation": (oids.QC_QSCD_LEGISLATION, countries),
}  # fmt: skip


def with_statements(written: bytes, *more: bytes) -> bytes:
    """The statements, and further ones."""
    whole = der.read_whole(written, tag=der.SEQUENCE)
    return der.write_sequence(written[whole.start : whole.end], *more)


def write_any_statements(**stated: Any) -> bytes:
    """As `write_qc_statements`, also with the facts of `RARE`."""
    rare = {name: value for name in RARE if (value := stated.pop(name, None)) not in (None, ())}
    more = (der.write_sequence(der.write_oid(RARE[name][0]), RARE[name][1](value)) for name, value in rare.items())
    return with_statements(write_qc_statements(**stated), *more)


def statements(variant: Variant) -> bytes:
    psd2 = None if variant.roles is None else Psd2Statement(variant.roles, *variant.nca)
    return write_qc_statements(qc_type=variant.qc_type, psd2=psd2, pds=(), compliance=variant.compliance)


def _make(variant: Variant) -> EidasCertificate:
    builder = (
        x509.CertificateBuilder()
        .subject_name(name_of(*variant.name))
        .issuer_name(name_of(("2.5.4.6", "LT"), ("2.5.4.3", variant.issuer)))
        .public_key(variant.key.public_key())  # type: ignore[attr-defined]
        .serial_number(variant.serial)
        .not_valid_before(variant.not_before)
        .not_valid_after(variant.not_after)
    )
    qc = statements(variant) if variant.qc is None else variant.qc
    access = x509.AccessDescription(AuthorityInformationAccessOID.OCSP, x509.UniformResourceIdentifier(variant.ocsp))
    extensions: list[tuple[x509.ExtensionType, bool]] = [
        key_usage(*variant.usage),
        (x509.UnrecognizedExtension(x509.ObjectIdentifier(oids.QC_STATEMENTS), qc), False),
        (x509.AuthorityKeyIdentifier(variant.authority_key, None, None), False),
        (x509.AuthorityInformationAccess([access]), False),
        (x509.CertificatePolicies([x509.PolicyInformation(x509.ObjectIdentifier(p), None) for p in variant.policies]), False),
    ]  # fmt: skip
    if variant.extended:
        extensions.append((x509.ExtendedKeyUsage(variant.extended), False))
    if variant.names:
        extensions.append((x509.SubjectAlternativeName([x509.DNSName(name) for name in variant.names]), False))
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical)
    signed = builder.sign(CA_KEY, hashes.SHA256(), ecdsa_deterministic=True)
    return EidasCertificate.from_der(signed.public_bytes(Encoding.DER))
