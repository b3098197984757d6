"""Faults of validity, signature, key and names."""

from __future__ import annotations

from dataclasses import replace

from cryptography.hazmat.primitives.asymmetric import ec

from tppkit.certificates import Psd2Statement, RoleOfPsp, der, oids
from tppkit.testpki.draft import Attribute, Draft, write_name
from tppkit.testpki.faults.case import QWAC, SEAL, WARNS, Bench, FaultCase
from tppkit.testpki.faults.edits import psd2_of, twice_attribute, with_attribute, with_psd2, without_attribute
from tppkit.testpki.faults.registry import fault, qwac_fault, seal_fault
from tppkit.testpki.keys import public_key_der
from tppkit.testpki.seeded_rsa import make_rsa_key

_TELETEX, _CB = 0x14, "0.4.0.19495.1.5"


@fault("certificate.expired")
def qwac_expired(bench: Bench) -> FaultCase:
    """The QWAC expired the day before."""
    return bench.changed(QWAC, bench.expired)


@fault("certificate.expired", use=SEAL)
def seal_expired(bench: Bench) -> FaultCase:
    """The QSealC expired the day before."""
    return bench.changed(SEAL, bench.expired)


@fault("certificate.not-yet-valid")
def qwac_not_yet_valid(bench: Bench) -> FaultCase:
    """The QWAC begins in a week."""
    return bench.changed(QWAC, lambda draft: replace(draft, not_before=bench.later))


@qwac_fault("certificate.serial-too-long")
def serial_too_long(draft: Draft) -> Draft:
    """The serial number has 21 bytes."""
    return replace(draft, serial=1 << 160)


@qwac_fault("certificate.weak-key", "key.weak")
def weak_key(draft: Draft) -> Draft:
    """The key is RSA with 1024 bits."""
    return replace(
        draft, public_key=public_key_der(make_rsa_key(1024, draft.public_key + draft.issuer + draft.public_key))
    )


@qwac_fault("certificate.unusual-key", "key.unsupported")
def unusual_curve(draft: Draft) -> Draft:
    """The key lies on secp256k1, a curve of no trust service."""
    number = int.from_bytes(draft.public_key[-32:], "big") >> 1
    return replace(draft, public_key=public_key_der(ec.derive_private_key(number | 1, ec.SECP256K1())))


@fault("certificate.broken-signature", "path.weak-signature")
def sha1_signature(bench: Bench) -> FaultCase:
    """The authority signed with SHA-1."""
    return bench.case(QWAC, bench.draft(QWAC).sign(bench.issuer(QWAC).key, hash_name="sha1"))


@fault("path.signature")
def broken_signature(bench: Bench) -> FaultCase:
    """The certificate was changed after it was signed: it has another serial number."""
    signed = bench.draft(QWAC).sign(bench.issuer(QWAC).key)
    changed = replace(bench.draft(QWAC), serial=bench.draft(QWAC).serial ^ 1).sign(bench.issuer(QWAC).key)
    value = der.read_children(signed, der.read_whole(signed, tag=der.SEQUENCE))[2]
    parts = der.read_children(changed, der.read_whole(changed, tag=der.SEQUENCE))
    body = changed[parts[0].offset : parts[1].end]
    return bench.case(QWAC, der.write_element(der.SEQUENCE, body, signed[value.offset : value.end]))


@fault("path.signature")
def signed_by_another_key(bench: Bench) -> FaultCase:
    """The authority for QSealCs signed what names the authority for QWACs as its issuer."""
    return bench.case(QWAC, bench.draft(QWAC).sign(bench.pki.qseal_ca.key))


@fault("trust.no-path")
def unknown_issuer(bench: Bench) -> FaultCase:
    """The issuer that is named is nobody that is believed."""
    name = write_name(
        (
            Attribute(oids.COUNTRY, "LT", der.PRINTABLE_STRING),
            Attribute(oids.ORGANIZATION, "tppkit TEST Nobody"),
            Attribute(oids.COMMON_NAME, "tppkit TEST Nobody"),
        )
    )
    return bench.case(QWAC, replace(bench.draft(QWAC), issuer=name).sign(bench.issuer(QWAC).key))


@qwac_fault("certificate.subject-attribute-missing")
def no_organization_name(draft: Draft) -> Draft:
    """The subject has no organizationName."""
    return without_attribute(draft, oids.ORGANIZATION)


@qwac_fault("certificate.subject-attribute-missing")
def no_country(draft: Draft) -> Draft:
    """The subject has no countryName."""
    return without_attribute(draft, oids.COUNTRY)


@seal_fault("certificate.subject-attribute-missing")
def no_common_name(draft: Draft) -> Draft:
    """The subject has no commonName."""
    return without_attribute(draft, oids.COMMON_NAME)


@qwac_fault("certificate.subject-attribute-repeated")
def two_organization_names(draft: Draft) -> Draft:
    """The subject has two organizationNames."""
    return twice_attribute(draft, oids.ORGANIZATION, "Second Payments TEST")


@qwac_fault("certificate.subject-string-type")
def teletex_organization_name(draft: Draft) -> Draft:
    """The organizationName is a TeletexString."""
    return with_attribute(draft, oids.ORGANIZATION, "Example Payments TEST", tag=_TELETEX)


@qwac_fault("certificate.subject-country", "certificate.subject-length")
def long_country(draft: Draft) -> Draft:
    """The countryName is written out."""
    return with_attribute(draft, oids.COUNTRY, "Lithuania")


@qwac_fault("organization-identifier.missing")
def no_organization_identifier(draft: Draft) -> Draft:
    """The subject has no organizationIdentifier."""
    return without_attribute(draft, oids.ORGANIZATION_IDENTIFIER)


@seal_fault("organization-identifier.missing")
def seal_without_organization_identifier(draft: Draft) -> Draft:
    """The subject of the QSealC has no organizationIdentifier."""
    return without_attribute(draft, oids.ORGANIZATION_IDENTIFIER)


@qwac_fault("organization-identifier.missing")
def two_organization_identifiers(draft: Draft) -> Draft:
    """The subject has two organizationIdentifiers."""
    return twice_attribute(draft, oids.ORGANIZATION_IDENTIFIER, "PSDLT-BL-LB999999")


@qwac_fault("organization-identifier.malformed")
def bare_number(draft: Draft) -> Draft:
    """The organizationIdentifier is a number without scheme."""
    return with_attribute(draft, oids.ORGANIZATION_IDENTIFIER, "12345987")


@qwac_fault("organization-identifier.malformed")
def misspelt_scheme(draft: Draft) -> Draft:
    """The organizationIdentifier begins with PDS."""
    return with_attribute(draft, oids.ORGANIZATION_IDENTIFIER, "PDSLT-BL-LB000000")


@qwac_fault("organization-identifier.malformed")
def lower_case_country(draft: Draft) -> Draft:
    """The organizationIdentifier's country is in lower case."""
    return with_attribute(draft, oids.ORGANIZATION_IDENTIFIER, "PSDlt-BL-LB000000")


@qwac_fault("organization-identifier.country")
def unknown_country(draft: Draft) -> Draft:
    """The organizationIdentifier's country, of a central bank that names no authority, is none of ISO 3166."""
    bank = with_psd2(draft, Psd2Statement((RoleOfPsp(_CB, "PSP_CB"),), "NA", "NA"))
    return with_attribute(bank, oids.ORGANIZATION_IDENTIFIER, "PSDQQ-BL-LB000000")


@qwac_fault("organization-identifier.authority-mismatch")
def identifier_of_another_authority(draft: Draft) -> Draft:
    """The organizationIdentifier names another authority than the PSD2 statement."""
    authority = "FI-FINFSA" if psd2_of(draft).nca_id == "DE-BAFIN" else "DE-BAFIN"
    return with_attribute(draft, oids.ORGANIZATION_IDENTIFIER, f"PSD{authority}-LB000000")


@qwac_fault("organization-identifier.not-psd", verdict=WARNS)
def vat_identifier(draft: Draft) -> Draft:
    """The organizationIdentifier is a VAT number, where the scheme PSD should be."""
    return with_attribute(draft, oids.ORGANIZATION_IDENTIFIER, "VATLT-100001234567")


@qwac_fault("organization-identifier.lei-checksum")
def wrong_lei(draft: Draft) -> Draft:
    """The organizationIdentifier is an LEI with wrong check digits."""
    return with_attribute(draft, oids.ORGANIZATION_IDENTIFIER, "LEIXG-529900T8BM49AURSDO56")


@qwac_fault("organization-identifier.unregistered-scheme", "organization-identifier.not-psd")
def local_scheme_without_registrar(draft: Draft) -> Draft:
    """The organizationIdentifier has a national scheme, and no statement says who registers it."""
    return with_attribute(draft, oids.ORGANIZATION_IDENTIFIER, "LB:LT-000000")


@qwac_fault("organization-identifier.is-name")
def identifier_as_name(draft: Draft) -> Draft:
    """The organizationName repeats the organizationIdentifier."""
    identifier = next(text for oid, text, _ in draft.subject if oid == oids.ORGANIZATION_IDENTIFIER)
    return with_attribute(draft, oids.ORGANIZATION, identifier)
