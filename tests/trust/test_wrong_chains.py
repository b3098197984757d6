"""The same wrong chains get the same verdict and code whatever kind of key their certificates have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from key_identifiers import key_identifiers
from tppkit.certificates import EidasCertificate, der, oids
from tppkit.errors import CertificateRejected
from tppkit.testpki.certificate import (
    Attribute,
    Draft,
    Extension,
    extension_of,
    write_generalized_time,
    write_name,
    write_time,
)
from tppkit.testpki.profiles import authority_extensions, key_usage
from tppkit.testpki.signing import default_hash, sign_bytes, signature_algorithm
from tppkit.trust import Anchors, PathVerifier

AT = datetime(2026, 6, 1, tzinfo=UTC)
STARTS, ENDS = AT - timedelta(days=30), AT + timedelta(days=30)
KEYS = {
    "P-256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "RSA": lambda: rsa.generate_private_key(65537, 2048),
    "brainpool": lambda: ec.generate_private_key(ec.BrainpoolP256R1()),
}
Edit = Callable[[Draft], Draft]
ROOT, ISSUING, LEAF = "Root", "Issuing", "leaf"
NOTHING = MappingProxyType({})


class Case(NamedTuple):
    """A chain of root, issuing authority and leaf, with the expected code.

    `edits` change a certificate before it is signed, `signed` the bytes that are signed, `outer` the algorithm stated beside
    the signature, `signers` whose key signs.
    """

    name: str
    code: str | None
    edits: Mapping[str, Edit] = NOTHING
    signed: Mapping[str, Callable[[bytes], bytes]] = NOTHING
    outer: Mapping[str, bytes] = NOTHING
    signers: Mapping[str, str] = NOTHING


def adds(oid: str, value: str, *, critical: bool = False) -> Edit:
    return lambda draft: draft.with_extension(Extension(oid, bytes.fromhex(value), critical))


def extends(extension: x509.ExtensionType, *, critical: bool = True) -> Edit:
    return lambda draft: draft.with_extension(extension_of(extension, critical))


def names(*dns: str) -> Edit:
    return extends(x509.SubjectAlternativeName([x509.DNSName(name) for name in dns]), critical=False)


def called(name: str) -> Edit:
    return lambda draft: replace(draft, subject=(Attribute(oids.COMMON_NAME, name),))


def both(*edits: Edit) -> Edit:
    def apply(draft: Draft) -> Draft:
        for edit in edits:
            draft = edit(draft)
        return draft

    return apply


def written_long(data: bytes) -> bytes:
    ends = write_time(ENDS)
    usual, long = (der.write_sequence(starts, ends) for starts in (write_time(STARTS), write_generalized_time(STARTS)))
    assert data.count(usual) == 1
    return data.replace(usual, long)


def claims_other_key(data: bytes) -> bytes:
    """State the algorithm of the other kind of key inside the signed part; the signature stays."""
    swapped = data.replace(RSA_ALGORITHM, ECDSA_ALGORITHM)
    return swapped if swapped != data else data.replace(ECDSA_ALGORITHM, RSA_ALGORITHM)


WITHIN = extends(x509.NameConstraints([x509.DNSName("good.example")], None))
RSA_ALGORITHM = bytes.fromhex("300d06092a864886f70d01010b0500")
ECDSA_ALGORITHM = bytes.fromhex("300a06082a8648ce3d040302")
OTHER_ALGORITHM = der.write_sequence(der.write_oid("1.3.101.113"))
UNNAMED = der.write_sequence()
# The issuer's certificate, and a list, at ldap://a b
ODD_AIA, ODD_POINT = "3018301606082b06010505073002860a6c6461703a2f2f612062", "30123010a00ea00c860a6c6461703a2f2f612062"
CASES = (
    Case("nothing wrong", None),
    Case("nothing wrong, with constraints", None, {ISSUING: WITHIN, LEAF: names("tpp.good.example")}),
    Case("leaf of version 1", "path.refused", {LEAF: lambda d: replace(d, version=0, extensions=())}),
    Case("serial number of 22 bytes", "path.refused", {LEAF: lambda d: replace(d, serial=1 << 170)}),
    Case("authority's serial number of 22 bytes", "path.refused", {ISSUING: lambda d: replace(d, serial=1 << 170)}),
    Case("root's serial number of 22 bytes", "path.refused", {ROOT: lambda d: replace(d, serial=1 << 170)}),
    Case(
        "nobody issued it", "path.refused",
        {ISSUING: lambda d: replace(d, subject=()), LEAF: lambda d: replace(d, issuer=UNNAMED)},
    ),
    Case("another algorithm outside", "path.refused", outer={LEAF: OTHER_ALGORITHM}),
    Case("GeneralizedTime before 2050", "path.refused", signed={LEAF: written_long}),
    Case("GeneralizedTime before 2050 above", "path.refused", signed={ISSUING: written_long}),
    Case("serial number zero", "path.refused", {LEAF: lambda d: replace(d, serial=0)}),
    Case("serial number below zero of an authority between", "path.refused", {ISSUING: lambda d: replace(d, serial=-1)}),
    Case("serial number zero of the anchor", None, {ROOT: lambda d: replace(d, serial=0)}),
    Case("serial number below zero of the anchor", None, {ROOT: lambda d: replace(d, serial=-(2**64))}),
    Case("address of the issuer with blanks", None, {ISSUING: adds(oids.AUTHORITY_INFORMATION_ACCESS, ODD_AIA)}),
    Case("address of the list with blanks", None, {LEAF: adds(oids.CRL_DISTRIBUTION_POINTS, ODD_POINT)}),
    Case("address of the list in Latin-1", None, {LEAF: adds(oids.CRL_DISTRIBUTION_POINTS, ODD_POINT.replace("2062", "e462"))}),
    Case("authority key without identifier", "path.refused", {ISSUING: adds(oids.AUTHORITY_KEY_IDENTIFIER, "3000")}),
    Case(
        "authority key with other parts", "path.extension-malformed",
        {LEAF: adds(oids.AUTHORITY_KEY_IDENTIFIER, "30068002aaaa0500")},
    ),
    Case("information access malformed", "path.extension-malformed", {LEAF: adds(oids.AUTHORITY_INFORMATION_ACCESS, "30023000")}),
    Case("constraints in a leaf", "path.refused", {LEAF: both(WITHIN, names("tpp.good.example"))}),
    Case("authority outside its constraints", "path.name-constraints", {ISSUING: both(WITHIN, names("bad.example"))}),
    Case("self-issued authority outside its constraints", None, {
        ISSUING: both(called(ROOT), WITHIN, names("bad.example")),
        LEAF: both(lambda d: replace(d, issuer=write_name((Attribute(oids.COMMON_NAME, ROOT),))), names("good.example")),
    }),
    Case("self-issued authority as the leaf, outside its constraints", "path.name-constraints", {
        LEAF: both(called(ISSUING), extends(x509.BasicConstraints(True, None)), WITHIN, names("bad.example")),
    }),
    Case("leaf outside the constraints", "path.name-constraints", {ISSUING: WITHIN, LEAF: names("bad.example")}),
    Case("constrained name with a final dot", "path.name-constraints", {ISSUING: WITHIN, LEAF: names("a.good.example.")}),
    Case("name malformed", "path.extension-malformed", {LEAF: adds(oids.SUBJECT_ALTERNATIVE_NAME, "3002a000")}),
    Case("extension twice", "path.extension-malformed", {LEAF: lambda d: replace(d, extensions=d.extensions * 2)}),
    Case("unknown critical extension", "path.critical-extension", {ISSUING: adds("2.999.1", "0500", critical=True)}),
    Case("no authority", "path.no-authority", {ISSUING: lambda d: d.without_extension(oids.BASIC_CONSTRAINTS)}),
    Case("constraints say no authority", "path.no-authority", {ISSUING: extends(x509.BasicConstraints(False, None))}),
    Case("key usage without keyCertSign", "path.key-usage", {ISSUING: extends(key_usage("digital_signature")[0])}),
    Case("path length of 9 bytes", "trust.no-path", {ISSUING: adds(oids.BASIC_CONSTRAINTS, "300e0101ff02090100" + 7 * "00")}),
    Case("path length", "path.length", {ROOT: extends(x509.BasicConstraints(True, 0))}),
    Case("authority expired", "path.expired", {ISSUING: lambda d: replace(d, not_after=AT - timedelta(days=1))}),
    Case("authority not yet valid", "path.not-yet-valid", {ISSUING: lambda d: replace(d, not_before=AT + timedelta(1))}),
    Case("pre-certificate", "path.pre-certificate", {LEAF: extends(x509.PrecertPoison())}),
    Case("another issuer", "trust.no-path", {LEAF: lambda d: replace(d, issuer=write_name((Attribute("2.5.4.3", "X"),)))}),
    Case("leaf signed by another key", "path.signature", signers={LEAF: ROOT}),
    Case("algorithm of another kind of key", "path.signature", signed={LEAF: claims_other_key}),
    Case("authority signed by another key", "path.signature", signers={ISSUING: LEAF}),
)  # fmt: skip


@pytest.fixture(scope="module", params=KEYS)
def keys(request):
    return {name: KEYS[request.param]() for name in (ROOT, ISSUING, LEAF)}


def drafts(keys) -> dict[str, Draft]:
    found = {}
    for name, issuer in ((ROOT, ROOT), (ISSUING, ROOT), (LEAF, ISSUING)):
        public = keys[name].public_key()
        own = (key_usage("digital_signature"),) if name == LEAF else authority_extensions(path_length=None)
        found[name] = Draft(
            subject=(Attribute(oids.COMMON_NAME, name),),
            issuer=write_name((Attribute(oids.COMMON_NAME, issuer),)),
            public_key=public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
            serial=7,
            not_before=STARTS,
            not_after=ENDS,
            extensions=tuple(
                extension_of(extension, critical)
                for extension, critical in (*own, *key_identifiers(public, keys[issuer].public_key()))
            ),
        )
    return found


def certify(draft: Draft, key, change: Callable[[bytes], bytes], outer: bytes | None) -> EidasCertificate:
    signed = draft.sign(key)
    part = der.read_children(signed, der.read_whole(signed, tag=der.SEQUENCE))[0]
    to_be_signed = der.write_sequence(change(signed[part.start : part.end]))
    algorithm = outer or signature_algorithm(key, default_hash(key)).dump()
    if change is claims_other_key:
        algorithm = claims_other_key(algorithm)
    signature = der.write_element(der.BIT_STRING, b"\x00", sign_bytes(key, to_be_signed, default_hash(key)))
    return EidasCertificate.from_der(der.write_sequence(to_be_signed, algorithm, signature))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_wrong_chain_is_refused_with_one_code_under_every_kind_of_key(keys, case):
    certificates = {}
    for name, draft in drafts(keys).items():
        edited = case.edits.get(name, lambda draft: draft)(draft)
        issuer = keys[({ROOT: ROOT, ISSUING: ROOT, LEAF: ISSUING} | dict(case.signers))[name]]
        certificates[name] = certify(edited, issuer, case.signed.get(name, lambda data: data), case.outer.get(name))
    paths = PathVerifier(Anchors((certificates[ROOT],), (certificates[ISSUING],)))
    try:
        paths.verify(certificates[LEAF], at=AT)
        code = None
    except CertificateRejected as e:
        code = e.code
    assert code == case.code
