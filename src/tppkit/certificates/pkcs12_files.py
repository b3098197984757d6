"""Certificates from PKCS#12 files, with a limit on the work to open one.

Source: RFC 7292, RFC 9579 (PBMAC1).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, pkcs12

from tppkit._encoding import pem_fault, utf8
from tppkit.certificates import der
from tppkit.errors import FormatError

MAX_ITERATIONS = 5_000_000  # takes seconds; usual files have 2,000 to 1,000,000

# A PFX begins with its version, which is 3 (RFC 7292 section 4). Many are BER: the length may be indefinite.
_PFX = re.compile(rb"\x30(?:[\x00-\x80]|\x81.|\x82..|\x83...|\x84....)\x02\x01\x03", re.DOTALL)
_PLAIN_BAGS = frozenset({"key_bag", "cert_bag", "crl_bag", "secret_bag"})
_MAX_NESTING = 4
_PBMAC1 = "1.2.840.113549.1.5.14"


def is_pkcs12(data: bytes) -> bool:
    """Whether the bytes begin like a PKCS#12 file."""
    return _PFX.match(data) is not None


def certificates_of(bundle: pkcs12.PKCS12KeyAndCertificates) -> tuple[bytes, ...]:
    """Return DER of every certificate of an opened file, the one with the key first."""
    found = [one.certificate for one in (bundle.cert, *bundle.additional_certs) if one is not None]
    return tuple([certificate.public_bytes(Encoding.DER) for certificate in found])


def open_pkcs12(data: bytes, password: bytes | str | None) -> pkcs12.PKCS12KeyAndCertificates:
    """Open a PKCS#12 file including its key.

    Args:
        data: the file.
        password: for an encrypted file; text is encoded as UTF-8. An unencrypted file is read with or without a password.

    Raises:
        FormatError: `pkcs12.unreadable`, `pkcs12.too-costly`.
    """
    password = utf8(password)
    is_encrypted = _require_bounded_work(data, password)
    try:
        try:
            return pkcs12.load_pkcs12(data, password)
        except ValueError:
            if is_encrypted or password is None:
                raise
            return pkcs12.load_pkcs12(data, None)  # an unencrypted file often has a MAC without a password
    except ValueError as e:
        raise FormatError("pkcs12.unreadable", "this PKCS#12 file cannot be opened: wrong password, or damaged") from e
    except (TypeError, UnsupportedAlgorithm) as e:
        fault = (
            "password that is neither text nor bytes"
            if isinstance(e, TypeError)
            else "key or cipher of an unsupported type"
        )
        raise FormatError("pkcs12.unreadable", f"this PKCS#12 file has a {fault}") from e


def _require_bounded_work(data: bytes, password: bytes | None) -> bool:
    """Reject a file that takes too much work to open; returns whether a part of it is encrypted.

    The file states how often its password is hashed, so a hostile one could keep a server busy for hours. The contents of an
    encrypted part cannot be checked before it is opened, so such a file is opened only with a password.
    """
    try:
        encrypted, rounds = _work(data)
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, FormatError) as e:
        reason = pem_fault(data) or "it is damaged or of an unsupported type"
        raise FormatError("pkcs12.unreadable", f"this PKCS#12 file cannot be read: {reason}") from e
    if encrypted and password is None:
        raise FormatError("pkcs12.unreadable", "this PKCS#12 file is encrypted, and no password was given")
    if sum(rounds) > MAX_ITERATIONS:
        raise FormatError(
            "pkcs12.too-costly",
            f"opening this PKCS#12 file takes {sum(rounds)} rounds of hashing, more than {MAX_ITERATIONS}",
        )
    return encrypted


def _work(data: bytes) -> tuple[bool, list[int]]:
    """Return whether a part is encrypted, and the rounds of the MAC and of each visible encrypted part."""
    from asn1crypto import pkcs12 as asn1  # slow to import, and only PKCS#12 needs it

    pfx = asn1.Pfx.load(data, strict=True)
    rounds = list(_mac_rounds(pfx["mac_data"])) if pfx["mac_data"].native else []
    encrypted = []
    for safe in pfx.authenticated_safe:
        kind = safe["content_type"].native
        if kind == "encrypted_data":
            algorithm = safe["content"]["encrypted_content_info"]["content_encryption_algorithm"]
            encrypted.append(int(algorithm.kdf_iterations))
        elif kind == "data":
            encrypted += _shrouded_rounds(asn1.SafeContents.load(safe["content"].native))
        else:
            raise ValueError(f"a part of the kind {kind}")  # encrypted to a public key, which is not supported
    return bool(encrypted), rounds + encrypted


def _shrouded_rounds(contents: Any, depth: int = 0) -> Iterator[int]:
    """Yield the rounds of each shrouded key, including those in nested safes (RFC 7292 section 4.2.6)."""
    if depth > _MAX_NESTING:
        raise ValueError("safes nest too deeply")
    for bag in contents:
        kind = bag["bag_id"].native
        if kind == "pkcs8_shrouded_key_bag":
            yield int(bag["bag_value"]["encryption_algorithm"].kdf_iterations)
        elif kind == "safe_contents":
            yield from _shrouded_rounds(bag["bag_value"], depth + 1)
        elif kind not in _PLAIN_BAGS:
            raise ValueError(f"unsupported bag {kind}")


def _mac_rounds(mac: Any) -> Iterator[int]:
    yield int(mac["iterations"].native)
    algorithm = mac["mac"]["digest_algorithm"]
    if algorithm["algorithm"].dotted == _PBMAC1:  # PBMAC1-params ::= SEQUENCE { keyDerivationFunc, messageAuthScheme }
        parameters = algorithm["parameters"].dump()
        derivation = der.read_children(parameters, der.read_whole(parameters, tag=der.SEQUENCE))[0]
        pbkdf2 = der.read_children(parameters, der.read_children(parameters, derivation)[1])
        yield der.read_integer(parameters, pbkdf2[1])  # salt, iterationCount, …
