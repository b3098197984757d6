"""Read certificates and keys that options name, in every form that `read_sources` accepts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from tppkit._clock import format_time
from tppkit._files import read_bounded
from tppkit.certificates import EidasCertificate
from tppkit.certificates.certificate import EidasRequest
from tppkit.certificates.sources import MAX_SOURCE_BYTES, Source, read_sources
from tppkit.cli.output import read_input, reading, require_one_stdin
from tppkit.errors import FormatError
from tppkit.httpsig import load_private_key

_MAX_PASSWORD_BYTES = 1024
_MAX_KEY_BYTES = 64 * 1024  # PKCS#12 with a chain included
Read = EidasCertificate | EidasRequest


def _password(whose: str, *names: str, multiple: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    text = f"A file whose first line is the password of {whose}."
    return click.option("--password-file", *names, type=click.Path(path_type=Path), multiple=multiple, help=text)


password_option = _password("the PKCS#12 file")
key_password_option = _password("the key")
seal_password_option = _password("the key, and of the QSealC if it is PKCS#12")
passwords_option = _password("both PKCS#12 files; give it twice for two passwords", "password_files", multiple=True)


@dataclass(frozen=True, slots=True)
class Bundle:
    """The certificates of one file.

    Attributes:
        file: its name as given.
        leaf: the first certificate.
        others: the rest, usable as intermediates.

    Example:
        bundle = read_bundle("qwac-chain.pem", None)
        print(bundle.leaf.subject, len(bundle.others))
    """

    file: str
    leaf: EidasCertificate
    others: tuple[EidasCertificate, ...]


def read_password(file: Path | None) -> bytes | None:
    """Read the first line of a password file.

    Raises:
        UnreadableFile: `file.unreadable`, `file.too-large`.
    """
    if file is None:
        return None
    with reading(file):
        return read_bounded(file, max_bytes=_MAX_PASSWORD_BYTES).partition(b"\n")[0].rstrip(b"\r")


def read_key(name: str, password: bytes | None) -> PrivateKeyTypes:
    """Read a private key in PEM, DER or PKCS#12 from a file, or from standard input for `-`.

    Raises:
        FormatError: `file.unreadable`, `file.too-large`, `pkcs12.*`.
        ConfigurationError: `key.unreadable`.
    """
    return load_private_key(read_input(name, max_bytes=_MAX_KEY_BYTES), password=password)


def read_request(name: str) -> EidasRequest:
    """Read the first certificate request in a file, or in standard input for `-`.

    Raises:
        FormatError: `certificate.not-found`, and as `read_input`, `read_sources` and `read_source`.
    """
    for source in read_sources(read_input(name, max_bytes=MAX_SOURCE_BYTES)):
        if source.kind == "csr":
            return EidasRequest.from_der(source.der)
    raise FormatError("certificate.not-found", f"{name} contains no certificate request")


def read_source(source: Source) -> Read:
    """Parse a certificate or request.

    Raises:
        FormatError: as `EidasCertificate.from_der`.
    """
    return EidasCertificate.from_der(source.der) if source.kind == "certificate" else EidasRequest.from_der(source.der)


def read_bundle(name: str, password: bytes | None) -> Bundle:
    """Read the certificates of a file whose first entry is a certificate.

    Raises:
        UnreadableFile: `certificate.is-request`, and as `read_input`, `read_sources` and `read_source`.
    """
    with reading(name):
        first, *others = read_sources(read_input(name, max_bytes=MAX_SOURCE_BYTES), password=password)
        if first.kind == "csr":
            message = "this is a certificate request, which has no issuer and no validity; give a certificate"
            raise FormatError("certificate.is-request", message)
        above = tuple(EidasCertificate.from_der(source.der) for source in others if source.kind == "certificate")
        return Bundle(name, EidasCertificate.from_der(first.der), above)


def certificate_object(certificate: EidasCertificate) -> dict[str, Any]:
    """Return what identifies a certificate and its provider, as a JSON object."""
    identifier = certificate.organization_identifier
    return {
        "subject": str(certificate.subject),
        "issuer": str(certificate.issuer),
        "serial_hex": certificate.serial_hex,
        "sha256": certificate.sha256,
        "not_before": format_time(certificate.not_before),
        "not_after": format_time(certificate.not_after),
        "organization_identifier": identifier and identifier.text,
        "roles": list(certificate.roles),
    }


def read_bundles(names: Sequence[str], password_files: Sequence[Path]) -> list[Bundle]:
    """Read the bundle of each file.

    Args:
        names: the files.
        password_files: none, one for all files, or one for each.

    Raises:
        UnreadableFile: as `read_password` and `read_bundle`.
        click.UsageError: standard input is named twice, or the number of password files is wrong.
    """
    if len(password_files) not in (0, 1, len(names)):
        raise click.UsageError(f"give --password-file once for all files, or {len(names)} times")
    require_one_stdin(*names)
    passwords = [read_password(file) for file in password_files]
    each = passwords if len(passwords) == len(names) else (passwords or [None]) * len(names)
    return [read_bundle(name, password) for name, password in zip(names, each, strict=True)]


def read_certificate(file: str) -> EidasCertificate:
    """Return the first certificate of a file, for options.

    Raises:
        UnreadableFile: as `read_bundle`.
    """
    return read_bundle(file, None).leaf
