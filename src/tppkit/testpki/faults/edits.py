"""Edits that break one thing of a certificate before it is signed.

broken = roles((PI, "PSP_AI"))(Draft.of(pki.qwac.certificate))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from tppkit.certificates import PdsLocation, Psd2Statement, RoleOfPsp, der, oids
from tppkit.certificates.qcstatements import LimitValue, read_qc_statements
from tppkit.certificates.write_qcstatements import write_limit_value, write_pds, write_psd2
from tppkit.testpki.certificate import Attribute, Draft, Extension, extension_of
from tppkit.testpki.keys import public_key_der
from tppkit.testpki.profiles import key_usage
from tppkit.testpki.seeded_rsa import make_rsa_key

Edit = Callable[[Draft], Draft]

PI, AI, CB, UNSPECIFIED = "0.4.0.19495.1.2", "0.4.0.19495.1.3", "0.4.0.19495.1.5", "0.4.0.19495.1.0"


def all_of(*edits: Edit) -> Edit:
    """Apply several edits, the first one first."""

    def edit(draft: Draft) -> Draft:
        for one in edits:
            draft = one(draft)
        return draft

    return edit


def changed(**fields: Any) -> Edit:
    """Replace fields of the draft."""
    return lambda draft: replace(draft, **fields)


# The subject.


def attribute(oid: str, text: str, *, tag: int | None = None) -> Edit:
    """Change the text of a subject attribute, and its string type if `tag` is given."""
    return lambda draft: replace(
        draft, subject=tuple(Attribute(a.oid, text, tag or a.tag) if a.oid == oid else a for a in draft.subject)
    )


def no_attribute(oid: str) -> Edit:
    """Remove a subject attribute."""
    return lambda draft: replace(draft, subject=tuple(one for one in draft.subject if one.oid != oid))


def second_attribute(oid: str, text: str) -> Edit:
    """Add an attribute to the subject."""
    return lambda draft: replace(draft, subject=(*draft.subject, Attribute(oid, text)))


def text_of(draft: Draft, oid: str) -> str:
    """Return the text of a subject attribute."""
    return next(one.text for one in draft.subject if one.oid == oid)


# The key.


def weak_key(draft: Draft) -> Draft:
    """Put an RSA key of 1024 bits in the place of the key."""
    key = make_rsa_key(1024, draft.public_key + draft.issuer + draft.public_key)
    return replace(draft, public_key=public_key_der(key))


def unusual_curve(draft: Draft) -> Draft:
    """Put a key on secp256k1 in the place of the key."""
    number = int.from_bytes(draft.public_key[-32:], "big") >> 1
    return replace(draft, public_key=public_key_der(ec.derive_private_key(number | 1, ec.SECP256K1())))


# Extensions.


def value_of(draft: Draft, oid: str) -> bytes:
    """Return DER of an extension's value."""
    return next(one.value for one in draft.extensions if one.oid == oid)


def extension(value: x509.ExtensionType, *, critical: bool = False) -> Edit:
    """Replace or add an extension."""
    return lambda draft: draft.with_extension(extension_of(value, critical))


def raw_extension(oid: str, value: bytes, critical: bool = False) -> Edit:
    """Replace or add an extension with any value, which may be no DER."""
    return lambda draft: draft.with_extension(Extension(oid, value, critical))


def no_extension(oid: str) -> Edit:
    """Remove an extension."""
    return lambda draft: draft.without_extension(oid)


def critical_extension(oid: str) -> Edit:
    """Make an extension critical."""
    return lambda draft: draft.with_extension(Extension(oid, value_of(draft, oid), critical=True))


def usage(*names: str, critical: bool = True) -> Edit:
    """Replace the key usage."""
    return extension(key_usage(*names)[0], critical=critical)


def purposes(*oids_: x509.ObjectIdentifier) -> Edit:
    """Replace the extended key usage."""
    return extension(x509.ExtendedKeyUsage(list(oids_)))


def policies(*stated: str) -> Edit:
    """Replace the certificate policies."""
    information = [x509.PolicyInformation(x509.ObjectIdentifier(policy), None) for policy in stated]
    return extension(x509.CertificatePolicies(information))


def access(method: x509.ObjectIdentifier, url: str) -> Edit:
    """Replace the authority information access by one address."""
    described = x509.AccessDescription(method, x509.UniformResourceIdentifier(url))
    return extension(x509.AuthorityInformationAccess([described]))


def crl_address(url: str) -> Edit:
    """Replace the CRL distribution points by one address."""
    point = x509.DistributionPoint([x509.UniformResourceIdentifier(url)], None, None, None)
    return extension(x509.CRLDistributionPoints([point]))


def second_dns_name(name: str) -> Edit:
    """Add a DNS name beside the common name."""
    return lambda draft: extension(
        x509.SubjectAlternativeName([x509.DNSName(text_of(draft, oids.COMMON_NAME)), x509.DNSName(name)])
    )(draft)


# QcStatements.


def _statement(oid: str, *info: bytes) -> bytes:
    return der.write_sequence(der.write_oid(oid), *info)


def statements_of(draft: Draft) -> list[bytes]:
    """Return DER of each QCStatement."""
    value = value_of(draft, oids.QC_STATEMENTS)
    return [value[s.offset : s.end] for s in der.read_children(value, der.read_whole(value, tag=der.SEQUENCE))]


def qc_statements(write: Callable[[Draft], bytes]) -> Edit:
    """Replace the value of QcStatements by other DER, or by other bytes."""
    return lambda draft: draft.with_extension(Extension(oids.QC_STATEMENTS, write(draft)))


def no_statement(oid: str) -> Edit:
    """Remove the statements of an identifier."""
    return qc_statements(lambda draft: der.write_sequence(*_others(draft, oid)))


def statement(oid: str, *info: bytes) -> Edit:
    """Replace or add a statement."""
    return qc_statements(lambda draft: der.write_sequence(*_others(draft, oid), _statement(oid, *info)))


def second_statement(oid: str, *info: bytes) -> Edit:
    """Add a statement beside those of the same identifier."""
    return qc_statements(lambda draft: der.write_sequence(*statements_of(draft), _statement(oid, *info)))


def _others(draft: Draft, oid: str) -> list[bytes]:
    def oid_of(one: bytes) -> str:
        return der.read_oid(one, der.read_children(one, der.read_whole(one, tag=der.SEQUENCE))[0])

    return [one for one in statements_of(draft) if oid_of(one) != oid]


def qc_types(*types: str) -> Edit:
    """Replace the QcType."""
    return statement(oids.QC_TYPE, der.write_sequence(*map(der.write_oid, types)))


def legislation(country: str) -> Edit:
    """State that the certificate is qualified by the law of a country."""
    return statement(oids.QC_CC_LEGISLATION, der.write_sequence(der.write_text(country, tag=der.PRINTABLE_STRING)))


def pds(*locations: tuple[str, str]) -> Edit:
    """Replace the disclosure statements: file name or URL, and language, of each."""
    base = "https://pki.test.example.com/"
    places = (PdsLocation(url if ":" in url else base + url, language) for url, language in locations)
    return statement(oids.QC_PDS, write_pds(tuple(places)))


def limit(currency: str, amount: int) -> Edit:
    """Add a limit on the value of transactions."""
    return statement(oids.QC_LIMIT_VALUE, write_limit_value(LimitValue(currency, amount, 0)))


# The PSD2 statement.


def psd2_of(draft: Draft) -> Psd2Statement:
    """Return the PSD2 statement."""
    stated = read_qc_statements(value_of(draft, oids.QC_STATEMENTS)).psd2
    if stated is None:
        raise LookupError("the draft has no PSD2 statement")
    return stated


def psd2(change: Callable[[Psd2Statement], dict[str, Any]]) -> Edit:
    """Change fields of the PSD2 statement, which is written correctly."""

    def edit(draft: Draft) -> Draft:
        stated = psd2_of(draft)
        return statement(oids.QC_PSD2, write_psd2(replace(stated, **change(stated))))(draft)

    return edit


def roles(*stated: tuple[str, str]) -> Edit:
    """Replace the roles: dotted identifier and name of each."""
    return psd2(lambda _: {"roles": tuple(RoleOfPsp(*role) for role in stated)})


def authority(nca_id: str) -> Edit:
    """Replace the authority in the organizationIdentifier and in the PSD2 statement, and keep its name."""
    return all_of(attribute(oids.ORGANIZATION_IDENTIFIER, f"PSD{nca_id}-LB000000"), psd2(lambda _: {"nca_id": nca_id}))


def role(oid: str, name: str, *, tag: int = der.UTF8_STRING) -> bytes:
    """Write a RoleOfPSP."""
    return der.write_sequence(der.write_oid(oid), der.write_text(name, tag=tag))


def raw_psd2(
    *, roles: bytes | None = None, nca_name: bytes | int | None = None, nca_id: bytes | int | None = None
) -> Edit:
    """Write the PSD2 statement from raw parts.

    Args:
        roles: DER in the place of the roles; the valid ones by default.
        nca_name: DER in the place of the name, or another tag for it.
        nca_id: DER in the place of the identifier, or another tag for it.
    """

    def text(part: bytes | int | None, valid: str) -> bytes:
        return part if isinstance(part, bytes) else der.write_text(valid, tag=part or der.UTF8_STRING)

    def edit(draft: Draft) -> Draft:
        stated = psd2_of(draft)
        valid = der.write_sequence(*(role(one.oid, one.name) for one in stated.roles))
        parts = (
            valid if roles is None else roles,
            text(nca_name, stated.nca_name),
            text(nca_id, stated.nca_id),
        )
        return statement(oids.QC_PSD2, der.write_sequence(*parts))(draft)

    return edit


def flattened_roles(draft: Draft) -> Draft:
    """Write all roles into one RoleOfPSP."""
    parts = b"".join(der.write_oid(one.oid) + der.write_text(one.name) for one in psd2_of(draft).roles)
    return raw_psd2(roles=der.write_sequence(der.write_sequence(parts)))(draft)
