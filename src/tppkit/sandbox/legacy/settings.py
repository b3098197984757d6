"""Signing key and API key of the test and the live host of the legacy interface, created once and stored in a folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from tppkit._files import PRIVATE, locked, make_folder, read_bounded, replace_file
from tppkit.errors import ConfigurationError
from tppkit.sandbox.api_keys import read_or_make_api_key
from tppkit.testpki import key_pem

HOSTS = TEST, LIVE = "test", "live"
_MAX_BYTES = 4096


@dataclass(frozen=True, slots=True)
class LegacyHost:
    """The test or the live host.

    Attributes:
        name: `test` or `live`.
        signing_key: signs callbacks and login GETs.
        api_key: the API key of the provider.
        public_key: file of the public key, PEM.
        pages_url: address of the pages, without a path.
    """

    name: str
    signing_key: ec.EllipticCurvePrivateKey = field(repr=False)
    api_key: str = field(repr=False)
    public_key: Path
    pages_url: str

    @classmethod
    def open(cls, folder: Path, name: str, *, pages_url: str) -> Self:
        """Read the keys of a host. Absent keys are created, and the file of the public key is always written.

        Args:
            folder: the folder of the sandbox.
            name: `test` or `live`.
            pages_url: address of the pages, without a path.

        Raises:
            ConfigurationError: `file.unwritable`, `legacy.key`.
            FormatError: `file.unreadable`.
        """
        make_folder(folder)
        private, secret, public = (folder / f"{name}.{end}" for end in ("key", "api-key", "pem"))
        with locked(folder):
            if not private.exists():
                replace_file(private, key_pem(ec.generate_private_key(ec.SECP256R1())), mode=PRIVATE)
            key, api_key = _read_key(private), read_or_make_api_key(secret, code="legacy.key")
            replace_file(public, public_pem(key))
        return cls(name, key, api_key, public.resolve(), pages_url)


def open_hosts(folder: Path, pages_url: str) -> Mapping[str, LegacyHost]:
    """Open the test and the live host, by their names. Errors are those of `LegacyHost.open`."""
    return {name: LegacyHost.open(folder, name, pages_url=pages_url) for name in HOSTS}


def public_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return the public key as PEM."""
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def _read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = load_pem_private_key(read_bounded(path, max_bytes=_MAX_BYTES), password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ConfigurationError("legacy.key", f"{path} is not a private key on secp256r1: remove it to get a new one")
    return key
