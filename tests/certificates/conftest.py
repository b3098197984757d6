"""Certificates like those of the test PKI, with single extensions or names other than they should be."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding

from key_identifiers import key_identifiers
from tppkit.certificates import EidasCertificate, Use, oids
from tppkit.errors import FormatError
from tppkit.testpki import Pki
from tppkit.testpki.profiles import qseal_extensions, qwac_extensions

Issue = Callable[..., EidasCertificate]


@pytest.fixture(scope="session")
def issue(pki: Pki) -> Issue:
    """Issues a QWAC or QSealC of the PKI's provider.

    Extensions that are passed take the place of the profile's, or stand beside them; `without` names extension classes to
    leave out, `critical` holds further extensions that are critical; `qc` is the value of the qcStatements extension.
    """

    def issue(
        use: Use,
        *extensions: x509.ExtensionType,
        qc: bytes | None = None,
        without: tuple[type, ...] = (),
        critical: tuple[x509.ExtensionType, ...] = (),
        subject: x509.Name | None = None,
        issuer: x509.Name | None = None,
        public_key: object = None,
        not_before: datetime | None = None,
        days: int = 90,
        serial: int = 0x9FA1,
    ) -> EidasCertificate:
        profile, holder = (qwac_extensions, pki.qwac) if use is Use.QWAC else (qseal_extensions, pki.qseal)
        key = public_key or holder.key.public_key()
        begins = not_before or pki.not_before
        whole = [*profile(pki.provider), *key_identifiers(key, pki.root.key.public_key())]
        chosen = {extension.oid: (extension, critical) for extension, critical in whole}
        if qc is not None:
            extensions += (x509.UnrecognizedExtension(x509.ObjectIdentifier(oids.QC_STATEMENTS), qc),)
        chosen |= {extension.oid: (extension, False) for extension in extensions}
        chosen |= {extension.oid: (extension, True) for extension in critical}
        builder = (
            x509.CertificateBuilder()
            .subject_name(holder.certificate.x509.subject if subject is None else subject)
            .issuer_name(pki.root.certificate.x509.subject if issuer is None else issuer)
            .public_key(key)
            .serial_number(serial)
            .not_valid_before(begins)
            .not_valid_after(begins + timedelta(days=days))
        )
        for extension, critical in chosen.values():
            if not isinstance(extension, without):
                builder = builder.add_extension(extension, critical)
        return EidasCertificate.from_der(builder.sign(pki.root.key, hashes.SHA256()).public_bytes(Encoding.DER))

    return issue


@pytest.fixture(scope="session")
def real_certificates(shared_data: Path) -> list[EidasCertificate]:
    """Every certificate of the collection of public ones that can be read."""
    files = sorted((shared_data / "certificates").glob("*/*.der"))
    found = []
    for file in files:
        with suppress(FormatError):
            found.append(EidasCertificate.from_der(file.read_bytes()))
    assert len(found) > 100
    return found
