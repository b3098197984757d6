"""Who we are to a bank: the QWAC with its key, the seal, and one TLS context made from them."""

from __future__ import annotations

import os
import secrets
import ssl
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from tppkit._files import read_bounded
from tppkit.certificates import EidasCertificate, load_certificates
from tppkit.errors import ConfigurationError, FormatError
from tppkit.httpsig.signers import KeySigner, load_private_key
from tppkit.seals import PSD2_V1, Seal, SealProfile

_MAX_KEY_BYTES = 64 * 1024


class Identity:
    """A provider's certificates and keys, and the TLS context of its connections (made once, then shared).

    Args:
        qwac: the website certificate.
        qwac_key: its private key.
        chain: authorities to send with it, the nearest first.
        seal: seals requests; None when only reading.
        server_anchors: authorities that the bank's server certificate must chain to; None takes the system's.

    Raises:
        ConfigurationError: `identity.key-mismatch`, `identity.other-organisation`, `identity.tls`, `trust.no-anchors` when
            `server_anchors` is empty.
    """

    def __init__(
        self,
        qwac: EidasCertificate,
        qwac_key: PrivateKeyTypes,
        *,
        chain: Sequence[EidasCertificate] = (),
        seal: Seal | None = None,
        server_anchors: Sequence[EidasCertificate] | None = None,
    ) -> None:
        if qwac_key.public_key() != qwac.public_key:
            raise ConfigurationError("identity.key-mismatch", f"the private key is not the key of {qwac.subject}")
        if seal is not None and seal.certificate.organization_identifier != qwac.organization_identifier:
            raise ConfigurationError(
                "identity.other-organisation",
                f"the QWAC is {qwac.organization_identifier}'s, the QSealC {seal.certificate.organization_identifier}'s",
            )
        self.qwac = qwac
        self.seal = seal
        self.tls_context = _make_context(server_anchors)
        _load_identity(self.tls_context, (qwac, *chain), qwac_key)

    @classmethod
    def from_files(
        cls,
        *,
        qwac: Path,
        qwac_key: Path,
        qseal: Path | None = None,
        qseal_key: Path | None = None,
        server_anchors: Path | None = None,
        password: bytes | None = None,
        profile: SealProfile = PSD2_V1,
    ) -> Self:
        """Read certificates and keys from files.

        Args:
            qwac: the website certificate in any form, with its chain behind it or without.
            qwac_key: its private key, PEM.
            qseal: the seal certificate; absent when only reading.
            qseal_key: its private key, PEM.
            server_anchors: authorities of the bank's server certificate; absent takes the system's.
            password: of encrypted keys.
            profile: how to seal.

        Raises:
            FormatError: `file.*`, `certificate.*`, `key.*`.
            ConfigurationError: `key.unreadable`, `seal.key-mismatch`, and those of `Identity`.
        """
        certificates = _read_certificates(qwac)
        seal = None
        if qseal is not None and qseal_key is not None:
            seal = Seal(_read_certificates(qseal)[0], KeySigner(_read_key(qseal_key, password)), profile=profile)
        elif qseal is not None or qseal_key is not None:
            raise ConfigurationError("identity.incomplete", "a seal needs both its certificate and its key")
        anchors = None if server_anchors is None else _read_certificates(server_anchors)
        return cls(
            certificates[0], _read_key(qwac_key, password), chain=certificates[1:], seal=seal, server_anchors=anchors
        )


def _read_certificates(path: Path) -> tuple[EidasCertificate, ...]:
    certificates = load_certificates(path)
    if not certificates:
        raise FormatError("certificate.not-found", f"{path} holds a certificate request, but no certificate")
    return certificates


def _read_key(path: Path, password: bytes | None) -> PrivateKeyTypes:
    return load_private_key(read_bounded(path, max_bytes=_MAX_KEY_BYTES), password=password)


def _make_context(server_anchors: Sequence[EidasCertificate] | None) -> ssl.SSLContext:
    if server_anchors is not None and not server_anchors:  # `ssl` would take the system's instead
        raise ConfigurationError("trust.no-anchors", "there is no authority for the bank's server certificate")
    authorities = (
        None if server_anchors is None else "".join(ssl.DER_cert_to_PEM_cert(anchor.der) for anchor in server_anchors)
    )
    context = ssl.create_default_context(cadata=authorities)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _load_identity(context: ssl.SSLContext, chain: Sequence[EidasCertificate], key: PrivateKeyTypes) -> None:
    # OpenSSL through `ssl` reads keys from files only: a file that holds the key encrypted under a password that exists
    # only here, and that is gone at once, never shows it.
    password = secrets.token_bytes(32).hex().encode()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password))
    pem += b"".join(certificate.x509.public_bytes(Encoding.PEM) for certificate in chain)
    descriptor, name = tempfile.mkstemp(prefix="tppkit-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(pem)
        context.load_cert_chain(name, password=password)
    except ssl.SSLError as e:
        raise ConfigurationError("identity.tls", f"TLS does not take this certificate and key: {e.reason}") from e
    finally:
        os.unlink(name)
