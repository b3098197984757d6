"""CRLs and OCSP responses that `cryptography` makes, with any fault."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from asn1crypto import crl as asn1_crl
from asn1crypto import ocsp as asn1_ocsp
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import ocsp

from tppkit.errors import CertificateRejected
from tppkit.trust import PathVerifier, RevocationEvidence
from tppkit.trust.revocation.ocsp_response import OcspResponse, parse_ocsp_response
from tppkit.trust.revocation.revocation_list import Crl, parse_crl

AT = datetime(2026, 6, 1, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
SHA256 = hashes.SHA256()
GOOD, REVOKED, UNKNOWN = ocsp.OCSPCertStatus.GOOD, ocsp.OCSPCertStatus.REVOKED, ocsp.OCSPCertStatus.UNKNOWN
HOLD = x509.ReasonFlags.certificate_hold
ODD = x509.UnrecognizedExtension(x509.ObjectIdentifier("2.999.1"), b"\x05\x00")


def evidence(*answers: Crl | OcspResponse) -> RevocationEvidence:
    """CRLs and OCSP responses, in any order."""
    crls = tuple(answer for answer in answers if isinstance(answer, Crl))
    return RevocationEvidence(crls, tuple(answer for answer in answers if isinstance(answer, OcspResponse)))


def point(**parts) -> tuple[x509.IssuingDistributionPoint, bool]:
    """The critical extension issuingDistributionPoint with these parts."""
    flags = dict.fromkeys(
        ("only_contains_user_certs", "only_contains_ca_certs", "indirect_crl", "only_contains_attribute_certs"), False
    )
    names = dict.fromkeys(("full_name", "relative_name", "only_some_reasons"))
    return x509.IssuingDistributionPoint(**(flags | names | parts)), True


def outcome(paths: PathVerifier, leaf, at: datetime) -> tuple[str | None, list[str]]:
    """The code of the refusal, or None, and the codes of the findings."""
    try:
        return None, [finding.code for finding in paths.verify(leaf.certificate, at=at).findings]
    except CertificateRejected as e:
        return e.code, [finding.code for finding in e.findings]


def code(paths: PathVerifier, leaf, at: datetime = AT) -> str | None:
    """The code of the refusal, or None."""
    return outcome(paths, leaf, at)[0]


def because(why: x509.ReasonFlags) -> list[tuple[x509.ExtensionType, bool]]:
    """The extension of an entry with the reason."""
    return [(x509.CRLReason(why), False)]


def make_crl(
    issuer,
    *revoked,
    at: datetime,
    lasts: timedelta | None = DAY,
    when=None,
    extensions=(),
    entry_extensions=(),
    key=None,
    algorithm: hashes.HashAlgorithm = SHA256,
) -> Crl:
    """A CRL of `issuer` from `at`, listing `revoked` as of `when`; a list of dates or of extensions has one for each."""
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(issuer.certificate.x509.subject)
        .last_update(at)
        .next_update(at + (DAY if lasts is None else lasts))
    )
    dates = when if isinstance(when, list) else [when or at] * len(revoked)
    each = entry_extensions
    if not (each and isinstance(each[0], list)):
        each = [entry_extensions] * len(revoked)
    for one, date, further in zip(revoked, dates, each, strict=True):
        entry = x509.RevokedCertificateBuilder().serial_number(one.certificate.serial).revocation_date(date)
        for extension, critical in further:
            entry = entry.add_extension(extension, critical)
        builder = builder.add_revoked_certificate(entry.build())
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical)
    return parse_crl(builder.sign(key or issuer.key, algorithm).public_bytes(Encoding.DER))


def edited_ocsp(response: OcspResponse, key, old: bytes, new: bytes) -> OcspResponse:
    """The response with other bytes of the same length in the signed part, signed again."""
    parsed = asn1_ocsp.OCSPResponse.load(response.der.replace(old, new))
    basic = parsed["response_bytes"]["response"].parsed
    basic["signature"] = key.sign(basic["tbs_response_data"].dump(), ec.ECDSA(SHA256))
    parsed["response_bytes"]["response"] = asn1_ocsp.ParsableOctetString(basic.dump())
    return parse_ocsp_response(parsed.dump())


def edited(crl: Crl, key, old: bytes, new: bytes) -> Crl:
    """The list with other bytes of the same length in the signed part, signed again."""
    parsed = asn1_crl.CertificateList.load(crl.der.replace(old, new))
    parsed["signature"] = key.sign(parsed["tbs_cert_list"].dump(), ec.ECDSA(SHA256))
    return parse_crl(parsed.dump())


def make_ocsp(
    about,
    issuer,
    *,
    at: datetime,
    lasts: timedelta | None = DAY,
    status: ocsp.OCSPCertStatus = ocsp.OCSPCertStatus.GOOD,
    when: datetime | None = None,
    reason: x509.ReasonFlags | None = None,
    responder=None,
    send_responder: bool = True,
    by_name: bool = False,
    named: hashes.HashAlgorithm = SHA256,
    algorithm: hashes.HashAlgorithm = SHA256,
    extensions=(),
    produced_at: datetime | None = None,
    more=(),
    single_extensions=(),
    certificates=(),
    key=None,
) -> OcspResponse:
    """A response about a certificate; signed by the issuer, or by `responder`, at the time it speaks of or `produced_at`.

    `more` are responses whose single responses stand behind this one's; `single_extensions` are dicts, as asn1crypto reads them;
    `certificates` are sent before the responder's; `key` signs in place of the signer's.
    """
    signer = responder or issuer
    revoked = status is ocsp.OCSPCertStatus.REVOKED
    builder = (
        ocsp.OCSPResponseBuilder()
        .add_response(
            cert=about.certificate.x509,
            issuer=issuer.certificate.x509,
            algorithm=named,
            cert_status=status,
            this_update=at,
            next_update=None if lasts is None else at + lasts,
            revocation_time=(when or at) if revoked else None,
            revocation_reason=reason if revoked else None,
        )
        .responder_id(
            ocsp.OCSPResponderEncoding.NAME if by_name else ocsp.OCSPResponderEncoding.HASH, signer.certificate.x509
        )
    )
    sent = [responder] if responder is not None and send_responder else []
    if certificates or sent:
        builder = builder.certificates([one.certificate.x509 for one in (*certificates, *sent)])
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical)
    signed = builder.sign(signer.key, algorithm).public_bytes(Encoding.DER)
    return _sign_again(signed, key or signer.key, algorithm, produced_at or at, more, single_extensions)


def _sign_again(
    der: bytes, key, algorithm: hashes.HashAlgorithm, produced_at: datetime, more, single_extensions
) -> OcspResponse:
    # The builder knows one single response, and writes the machine's present as producedAt.
    response = asn1_ocsp.OCSPResponse.load(der)
    basic = response["response_bytes"]["response"].parsed
    data = basic["tbs_response_data"]
    data["produced_at"] = produced_at
    if single_extensions:
        data["responses"][0]["single_extensions"] = list(single_extensions)
    for other in more:
        singles = asn1_ocsp.OCSPResponse.load(other.der)["response_bytes"]["response"].parsed["tbs_response_data"]
        data["responses"].append(singles["responses"][0])
    basic["signature"] = key.sign(data.dump(force=True), ec.ECDSA(algorithm))
    response["response_bytes"]["response"] = asn1_ocsp.ParsableOctetString(basic.dump(force=True))
    return parse_ocsp_response(response.dump(force=True))
