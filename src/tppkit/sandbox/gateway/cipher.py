"""Encryption of stored cards with AES-256-GCM. The key is from the environment, or made once in the sandbox's folder."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tppkit._files import PRIVATE, locked, make_folder, read_bounded, replace_file
from tppkit.errors import ConfigurationError
from tppkit.protocol.gateway.card_data import CardSecret

VARIABLE = "TPPKIT_VAULT_KEY"
_KEY_BYTES = 32
_NONCE_BYTES = 12  # NIST SP 800-38D section 8.2.2; drawn at random, so one key serves at most 2**32 cards
_MAX_FILE = 4096

Random = Callable[[int], bytes]


@dataclass(frozen=True, slots=True)
class StoredCard:
    """A card in the vault, which is encrypted as a whole. The security code is not stored.

    Attributes:
        pan: the card number.
        expiry: MMYYYY.
        name: the cardholder's name, or None.
    """

    pan: CardSecret
    expiry: CardSecret
    name: str | None = field(default=None, repr=False)


class CardCipher:
    """Encrypts stored cards, each for one project and vault token.

    Args:
        key: 32 bytes.
        source: the source of the key, for errors.
        random: returns a number of random bytes.

    Example:
        cipher = CardCipher.open(folder, os.environ)
        sealed = cipher.encrypt(card, project_id=project_id, vault_token=vault_token)
        cipher.decrypt(sealed, project_id=project_id, vault_token=vault_token) == card
    """

    def __init__(self, key: bytes, *, source: str, random: Random = os.urandom) -> None:
        if len(key) != _KEY_BYTES:
            raise ConfigurationError("vault.key", f"{source} has no key of {_KEY_BYTES} bytes in base64")
        self._aead = AESGCM(key)
        self._source = source
        self._random = random

    @classmethod
    def open(cls, folder: Path, environment: Mapping[str, str], *, random: Random = os.urandom) -> Self:
        """Read the key from TPPKIT_VAULT_KEY, or else from `gateway/vault.key`, which is made if absent.

        Args:
            folder: the folder of the sandbox.
            environment: variables by name.
            random: returns a number of random bytes.

        Raises:
            ConfigurationError: `vault.key`, `file.unwritable`.
            FormatError: `file.unreadable`, `file.too-large`.
        """
        text = environment.get(VARIABLE)
        if text is not None:
            return cls(_decode(text), source=VARIABLE, random=random)
        path = folder / "gateway" / "vault.key"
        make_folder(path.parent)
        with locked(path.parent):
            if not path.exists():
                replace_file(path, base64.b64encode(random(_KEY_BYTES)) + b"\n", mode=PRIVATE)
            kept = read_bounded(path, max_bytes=_MAX_FILE).decode("latin-1")
        return cls(_decode(kept), source=str(path), random=random)

    def encrypt(self, card: StoredCard, *, project_id: str, vault_token: str) -> bytes:
        """Encrypt a card; it can only be decrypted for the same project and token."""
        nonce = self._random(_NONCE_BYTES)
        return nonce + self._aead.encrypt(
            nonce,  # no variable has the card, because tools that report errors show variables
            json.dumps((card.pan.get_secret_value(), card.expiry.get_secret_value(), card.name)).encode(),
            _place(project_id, vault_token),
        )

    def decrypt(self, sealed: bytes, *, project_id: str, vault_token: str) -> StoredCard:
        """Decrypt a card.

        Raises:
            ConfigurationError: `vault.key`: it was stored with another key, for another project or token, or was changed.
        """
        place = _place(project_id, vault_token)
        try:
            plain = self._aead.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], place)
        except (InvalidTag, ValueError) as e:  # ValueError: a truncated nonce
            raise ConfigurationError(
                "vault.key",
                f"a stored card does not decrypt with the key of {self._source}: give the key that the cards were stored with",
            ) from e
        pan, expiry, name = json.loads(plain)
        return StoredCard(CardSecret(pan), CardSecret(expiry), name)


def _place(project_id: str, vault_token: str) -> bytes:
    return json.dumps(["card", project_id, vault_token]).encode()


def _decode(text: str) -> bytes:
    """Decode base64; returns no bytes for other texts, which the constructor rejects."""
    try:
        return base64.b64decode(text.strip(), validate=True)
    except ValueError:
        return b""
