"""Sealed messages and certificates that `sign_request` and the test PKI would never make."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from tppkit._encoding import encode_base64
from tppkit.certificates import EidasCertificate, oids
from tppkit.certificates.identifier import read_organization_identifier
from tppkit.certificates.write_qcstatements import write_qc_statements
from tppkit.errors import FormatError, VerificationError
from tppkit.httpsig import KeySigner, make_digest
from tppkit.seals import KeyIdForm, KeyIdStyle, Message, Seal, SealPolicy, SealProfile, verify_request
from tppkit.seals.key_id import make_key_id, verify_key_id
from tppkit.testpki import Issued, Pki
from tppkit.testpki.certificate import extension_of, sign_draft
from tppkit.testpki.profiles import Extension, qseal_extensions
from tppkit.trust import PathVerifier, make_anchors

AT = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
REQUEST_ID = "7f9c24e8-3b12-4f6b-9d3a-0c1f1e9b6a55"
TARGET = "/psd2/v1/payments/sepa-credit-transfers?x=%2F"
REQUEST = Message(
    "POST",
    TARGET,
    (("X-Request-ID", REQUEST_ID), ("PSU-IP-Address", "192.0.2.7"), ("Content-Type", "application/json")),
    b'{"creditorName":"A","amount":"12.50"}',
)
COVERED = ("digest", "x-request-id", "(request-target)")
TEMPLATE = 'keyId="{key_id}",algorithm="{algorithm}",headers="{headers}",signature="{signature}"'


def fresh_policy(pki: Pki) -> SealPolicy:
    """A policy that has seen nothing, not even a chain."""
    return SealPolicy(PathVerifier(make_anchors(pki.authorities)))


def verdict(message: Message, policy: SealPolicy, *, qwac: EidasCertificate | None = None, at: datetime = AT) -> str:
    """`holds`, or the code of the refusal; any other exception is not caught."""
    try:
        verify_request(message, qwac=qwac, at=at, policy=policy)
    except (FormatError, VerificationError) as e:
        return e.code
    return "holds"


def header(message: Message, name: str) -> str:
    """The one value of a header."""
    (value,) = message.values(name)
    return value


def with_value(message: Message, name: str, value: str) -> Message:
    """The message with another value in a header."""
    fields = [(field, value if field.lower() == name.lower() else old) for field, old in message.headers]
    return message._replace(headers=tuple(fields))


def without(message: Message, name: str) -> Message:
    """The message without a header."""
    return message._replace(headers=tuple([field for field in message.headers if field[0].lower() != name.lower()]))


def flips(text: str) -> Iterator[str]:
    """The text with one character changed, every one in turn, and with one less and one more."""
    for position, character in enumerate(text):
        for mask in (0x01, 0x20, 0x80):
            yield text[:position] + chr(ord(character) ^ mask) + text[position + 1 :]
    yield from (text[:-1], text[1:], text + text[-1:], text[:1] + text)


def seal_by_hand(
    message: Message,
    issued: Issued,
    *,
    covered: Sequence[str] = COVERED,
    digest: str | None = None,
    algorithm: str | None = None,
    key_id: str | None = None,
    template: str = TEMPLATE,
    sign: Callable[[bytes], bytes] | None = None,
    key_algorithm: str | None = None,
) -> Message:
    """A message sealed with a free hand: whatever is passed stands there, under a signature that is right all the same."""
    message = message.with_headers(("Digest", make_digest(message.body) if digest is None else digest))
    lines = [
        f"{name}: {message.method.lower()} {message.target}"
        if name == "(request-target)"
        else f"{name}: {', '.join(value.strip() for value in message.values(name))}"
        for name in covered
    ]
    signer = KeySigner(issued.key, algorithm=key_algorithm)
    signature = (sign or signer.sign)("\n".join(lines).encode("latin-1", "replace"))
    value = template.format(
        key_id=make_key_id(issued.certificate) if key_id is None else key_id,
        algorithm=signer.algorithm.name if algorithm is None else algorithm,
        headers=" ".join(covered),
        signature=encode_base64(signature),
    )
    return message.with_headers(
        ("Signature", value), ("TPP-Signature-Certificate", encode_base64(issued.certificate.der))
    )


def make_certificate(
    public_key: CertificatePublicKeyTypes,
    *,
    issuer: x509.Name,
    issuer_key: ec.EllipticCurvePrivateKey,
    subject: x509.Name,
    serial: int = 0x9FA1,
    extensions: Sequence[Extension] = (),
    at: datetime = AT,
) -> EidasCertificate:
    """A certificate of the given parts, valid for thirty days around `at`."""
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(serial)
        .not_valid_before(at - timedelta(days=15))
        .not_valid_after(at + timedelta(days=15))
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical)
    signed = builder.sign(issuer_key, hashes.SHA256(), ecdsa_deterministic=True)
    return EidasCertificate.from_der(signed.public_bytes(Encoding.DER))


ISSUER_KEY = ec.derive_private_key(1234567, ec.SECP256R1())
ORGANIZATION_IDENTIFIER = x509.ObjectIdentifier("2.5.4.97")


def issued_by(*attributes: tuple[x509.ObjectIdentifier, str], serial: int = 0x9FA1) -> EidasCertificate:
    """A certificate whose issuer has these attributes, in the certificate's order."""
    name = x509.Name([x509.NameAttribute(oid, value) for oid, value in attributes])
    return make_certificate(ISSUER_KEY.public_key(), issuer=name, issuer_key=ISSUER_KEY, subject=name, serial=serial)


QTSP = issued_by(
    (NameOID.COUNTRY_NAME, "LT"),
    (NameOID.ORGANIZATION_NAME, "Trust Services"),
    (ORGANIZATION_IDENTIFIER, "VATLT-1"),
    (NameOID.EMAIL_ADDRESS, "ca@trust.example"),
    (NameOID.COMMON_NAME, "Seal CA"),
)


def check_key_id(text: str, certificate: EidasCertificate, style: KeyIdStyle | None = None) -> str:
    """`names it`, or the code of the refusal."""
    try:
        verify_key_id(text, certificate, style=style or KeyIdStyle())
    except (FormatError, VerificationError) as e:
        return e.code
    return "names it"


def issue_seal(
    pki: Pki,
    public_key: CertificatePublicKeyTypes,
    *,
    extensions: Sequence[Extension] | None = None,
    serial: int = 0x9FA1,
) -> EidasCertificate:
    """A certificate from the QSealC authority of the test PKI, a proper QSealC unless other extensions are given."""
    return make_certificate(
        public_key,
        issuer=pki.qseal_ca.certificate.x509.subject,
        issuer_key=pki.qseal_ca.key,
        subject=pki.qseal.certificate.x509.subject,
        serial=serial,
        extensions=qseal_extensions(pki.provider) if extensions is None else extensions,
    )


CLIENT_IDS = {KeyIdForm.CLIENT_ID: "client-4711", KeyIdForm.URL: "https://tpp.example/seals/2026.pem"}


def request_for(profile: SealProfile, *, body: bytes = REQUEST.body) -> Message:
    """A request that has every field that a dialect always covers, and some that nobody signs; a GET when it has no body."""
    names = {name.lower() for name in profile.covered}
    fields = (
        ("X-Request-ID", REQUEST_ID),
        ("TPP-Request-ID", REQUEST_ID),
        ("Date", "Mon, 01 Jun 2026 12:00:00 GMT"),
        ("Content-Type", "application/json"),
        ("x-amz-access-token", "Atza|token"),
        ("Tenant", "nobody signs this"),
        ("X-Forwarded-For", "203.0.113.9"),
    )
    uncovered = ("x-request-id", "tenant", "x-forwarded-for")
    return Message(
        "POST" if body else "GET", TARGET, tuple(f for f in fields if f[0].lower() in {*names, *uncovered}), body
    )


def seal_of(profile: SealProfile, issued: Issued, **options: Any) -> Seal:
    """A seal in a dialect, by the first algorithm that it has for the key."""
    key_id = CLIENT_IDS.get(profile.key_id.form)
    return Seal.for_key(issued.certificate, issued.key, profile=profile, key_id=key_id, **options)


def policy_of(profile: SealProfile, pki: Pki, **options: Any) -> SealPolicy:
    """A policy of a dialect that has seen nothing; where no certificate is sent it knows the provider's."""
    certificate = pki.qseal.certificate
    key_id = CLIENT_IDS.get(profile.key_id.form, "")
    if profile.key_id.form is KeyIdForm.THUMBPRINT:
        key_id = make_key_id(certificate, style=profile.key_id)
    paths = PathVerifier(make_anchors(pki.authorities))
    return SealPolicy(paths, profile=profile, **{"certificates": {key_id: certificate}, **options})


MISMATCH = "organization-identifier.authority-mismatch"
# organizationIdentifier, NCAId of the PSD2 statement (None: no statement), and what a bank says by default.
ORGANIZATIONS = (
    ("PSDLT-BL-LB000000", "LT-BL", "holds"),
    ("VATLT-123456789", "LT-BL", "organization-identifier.scheme"),
    ("NTRLT-123456789", "LT-BL", "organization-identifier.scheme"),
    ("PDSLT-BL-LB000000", "LT-BL", "organization-identifier.malformed"),
    ("PSDZZ-BL-LB000000", "ZZ-BL", "organization-identifier.country"),
    ("PSDLT-BOL-LB000000", "LT-BL", MISMATCH),
    ("PSDLV-BL-LB000000", "LT-BL", MISMATCH),
    ("PSDLT-BL-LB000000", "NA", MISMATCH),
    ("PSDGB-OB-0015800001", "GB-FCA", MISMATCH),
)
WITHOUT_STATEMENT = (
    ("PSDLT-BL-LB000000", None, "holds"),
    ("VATLT-123456789", None, "organization-identifier.scheme"),
    ("PDSLT-BL-LB000000", None, "organization-identifier.malformed"),
)


def issue_for(pki: Pki, kind: str, identifier: str, nca_id: str | None) -> Issued:
    """A `qwac` or `qseal` that names an organisation and an authority, whether they fit or not."""
    organization = read_organization_identifier(identifier)
    provider = replace(pki.provider, organization_identifier=organization, nca_id=nca_id or "")
    drafted = pki.draft(kind, provider, label=kind)
    if nca_id is None:
        value = write_qc_statements(qc_type="web" if kind == "qwac" else "eseal", psd2=None, pds=())
        statements = x509.UnrecognizedExtension(x509.ObjectIdentifier(oids.QC_STATEMENTS), value)
        drafted = drafted._replace(draft=drafted.draft.with_extension(extension_of(statements, False)))
    return sign_draft(drafted, pki.issuer_of(kind), kind, kind)
