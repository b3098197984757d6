"""`repr` of certificates and of what is made of them is one short line, whatever they hold."""

from __future__ import annotations

from contextlib import suppress

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding

from tppkit.certificates import EidasCertificate, Use, oids
from tppkit.certificates.certificate import EidasRequest
from tppkit.client import Identity
from tppkit.errors import FormatError
from tppkit.seals import Seal


def require_one_short_line(shown: str) -> None:
    assert len(shown) < 300
    assert shown.isprintable()


@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_every_one_byte_mutant_of_a_qwac_that_can_be_read_has_a_repr(pki, mask):
    sound, read = pki.qwac.certificate.der, 0
    for place in range(len(sound)):
        mutant = bytearray(sound)
        mutant[place] ^= mask
        with suppress(FormatError):
            certificate = EidasCertificate.from_der(bytes(mutant))
            require_one_short_line(repr(certificate))
            read += 1
    assert read > 300


def test_a_long_name_with_line_breaks_is_shortened(issue):
    name = x509.Name([x509.NameAttribute(x509.ObjectIdentifier(oids.ORGANIZATION_IDENTIFIER), "PSDLT-BL-1\n" * 20)])
    require_one_short_line(repr(issue(Use.QWAC, subject=name)))


def test_a_repr_says_whose_it_is(pki):
    qwac, qseal = pki.qwac, pki.qseal
    request = EidasRequest.from_der(
        x509.CertificateSigningRequestBuilder()
        .subject_name(qwac.certificate.x509.subject)
        .sign(qwac.key, hashes.SHA256())
        .public_bytes(Encoding.DER)
    )
    seal = Seal.for_key(qseal.certificate, qseal.key)
    for made in (qwac.certificate, request, seal, Identity(qwac.certificate, qwac.key, seal=seal)):
        require_one_short_line(repr(made))
        assert repr(made).startswith(type(made).__name__)
        assert "PSDLT-BL-LB000000" in repr(made)
