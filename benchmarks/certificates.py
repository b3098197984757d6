"""Reading and judging certificates."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from datetime import UTC, datetime

from asn1crypto import core, x509
from cryptography.x509 import load_der_x509_certificate

from harness import Line, Subject, against
from tppkit.certificates import EidasCertificate, Use, check_certificate
from tppkit.testpki import make_pki

LEAF = make_pki(at=datetime(2026, 6, 1, 12, tzinfo=UTC), seed=1).qwac.certificate


class _Statement(core.Sequence):
    _fields = [("id", core.ObjectIdentifier), ("info", core.Any, {"optional": True})]  # noqa: RUF012  # as asn1crypto asks


class _Statements(core.SequenceOf):
    _child_spec = _Statement


def reading() -> Iterator[Line]:
    """A QWAC and every fact of it, as the first one that a process reads, and the same one again."""
    yield against("read a QWAC cold", read_cold, load_with_asn1crypto, what="of asn1crypto", at_most=0.4)
    yield against("read a QWAC again", read_whole, load_plainly, what="of cryptography with extensions", at_most=1.2)


def load_with_asn1crypto() -> object:
    """The same facts as Python values, statements included."""
    extensions = x509.Certificate.load(LEAF.der).native["tbs_certificate"]["extensions"]
    statements = next(one["extn_value"] for one in extensions if one["extn_id"] == "1.3.6.1.5.5.7.1.3")
    return extensions, _Statements.load(statements).native


def load_plainly() -> object:
    return load_der_x509_certificate(LEAF.der).extensions


def read_whole() -> object:
    certificate = EidasCertificate.from_der(bytes(memoryview(LEAF.der)))  # as it comes with the next request
    return certificate.organization_identifier, certificate.roles, certificate.extensions, certificate.findings


def read_cold() -> object:
    """With nothing remembered."""
    EidasCertificate._remembered.cache_clear()
    return read_whole()


def judging() -> Iterator[Line]:
    """Every rule on a QWAC from its bytes, as pkilint does it too; nothing is remembered."""

    def check() -> object:
        EidasCertificate._remembered.cache_clear()
        return check_certificate(EidasCertificate.from_der(LEAF.der), as_=Use.QWAC, at=LEAF.not_before)

    yield against("read and check a QWAC", check, pkilint(LEAF.der), what="of pkilint", at_most=0.1)


def pkilint(leaf: bytes) -> Subject:
    """Reads and lints by the profile that it takes the certificate for; its validators are made once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pkilint import etsi, loader
        from pkilint.pkix import certificate

    kind = etsi.determine_certificate_type(loader.load_certificate(leaf, "QWAC"))
    container = certificate.create_pkix_certificate_validator_container(
        etsi.create_decoding_validators(kind), etsi.create_validators(kind)
    )

    def lint() -> object:
        return container.validate(loader.load_certificate(leaf, "QWAC").root)

    return lint
