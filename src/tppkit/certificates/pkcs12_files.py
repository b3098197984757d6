"""Certificates from PKCS#12, with a bound on the work that opening one takes.

Source: RFC 7292, RFC 9579 (PBMAC1).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, pkcs12

from tppkit._encoding import utf8
from tppkit.certificates import der
from tppkit.errors import FormatError

MAX_ITERATIONS = 5_000_000  # seconds of work; programs write 2,000 to 1,000,000

# A PFX begins with its version, which is 3 (RFC 7292 section 4). Many are BER: the length may be indefinite.
_PFX = re.compile(rb"\x30(?:[\x00-\x80]|\x81.|\x82..|\x83...|\x84....)\x02\x01\x03", re.DOTALL)
_PLAIN_BAGS = frozenset({"key_bag", "cert_bag", "crl_bag", "secret_bag"})
_MAX_NESTING = 4
_PBMAC1 = "1.2.840.113549.1.5.14"


def is_pkcs12(data: bytes) -> bool:
    """Whether the bytes begin as a PKCS#12 file does."""
    return _PFX.match(data) is not None


def read_pkcs12(data: bytes, password: bytes | str | None) -> tuple[bytes, ...]:
    """DER of every certificate of a PKCS#12 file, the one with the key first.

    Args:
        data: the file.
        password: of an encrypted file, text as UTF-8; one in which nothing is encrypted needs none, and is read with one too.

    Raises:
        FormatError: `pkcs12.unreadable`, `pkcs12.too-costly`.
    """
    bundle = open_pkcs12(data, password)
    certificates: list[x509.Certificate] = [
        c.certificate for c in (bundle.cert, *bundle.additional_certs) if c is not None
    ]
    return tuple(certificate.public_bytes(Encoding.DER) for certificate in certificates)


def open_pkcs12(data: bytes, password: bytes | str | None) -> pkcs12.PKCS12KeyAndCertificates:
    """What a PKCS#12 file holds, its key included. Arguments and errors as `read_pkcs12`."""
    password = utf8(password)
    is_encrypted = _require_bounded_work(data, password)
    try:
        try:
            return pkcs12.load_pkcs12(data, password)
        except ValueError:
            if is_encrypted or password is None:
                raise
            return pkcs12.load_pkcs12(
                data, None
            )  # where nothing is encrypted, the checksum is often made without a password
    except ValueError as e:
        raise FormatError("pkcs12.unreadable", "this PKCS#12 file cannot be opened: wrong password, or damaged") from e
    except (TypeError, UnsupportedAlgorithm) as e:
        raise FormatError(
            "pkcs12.unreadable", "this PKCS#12 file has a key or cipher of a kind that is not read"
        ) from e


def _require_bounded_work(data: bytes, password: bytes | None) -> bool:
    """Whether anything is encrypted.

    A file names how often its password is hashed, so a hostile one could keep a server busy for hours.

    What stands inside an encrypted part is seen by nobody before it is opened, so such a part is opened only for somebody who
    knows the file's password.
    """
    try:
        encrypted, rounds = _work(data)
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, FormatError) as e:
        raise FormatError("pkcs12.unreadable", "this PKCS#12 file is damaged, or of a kind that is not read") from e
    if encrypted and password is None:
        raise FormatError("pkcs12.unreadable", "this PKCS#12 file is encrypted, and no password was given")
    if sum(rounds) > MAX_ITERATIONS:
        raise FormatError(
            "pkcs12.too-costly",
            f"opening this PKCS#12 file takes {sum(rounds)} rounds of hashing, more than {MAX_ITERATIONS}",
        )
    return encrypted


def _work(data: bytes) -> tuple[bool, list[int]]:
    """Whether anything is encrypted, and the number of rounds of the MAC and of each encrypted part that can be seen."""
    from asn1crypto import pkcs12 as asn1  # only PKCS#12 needs it, and it takes longer to import than all of this room

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
            raise ValueError(f"a part of the kind {kind}")  # for the holder of a private key, which nobody gives us
    return bool(encrypted), rounds + encrypted


def _shrouded_rounds(contents: Any, depth: int = 0) -> Iterator[int]:
    """The rounds of each shrouded key, also of those in safes inside (RFC 7292 section 4.2.6), which nearly nobody writes."""
    if depth > _MAX_NESTING:
        raise ValueError("safes nest too deeply")
    for bag in contents:
        kind = bag["bag_id"].native
        if kind == "pkcs8_shrouded_key_bag":
            yield int(bag["bag_value"]["encryption_algorithm"].kdf_iterations)
        elif kind == "safe_contents":
            yield from _shrouded_rounds(bag["bag_value"], depth + 1)
        elif kind not in _PLAIN_BAGS:
            raise ValueError(f"a bag of the kind {kind}")


def _mac_rounds(mac: Any) -> Iterator[int]:
    yield int(mac["iterations"].native)
    algorithm = mac["mac"]["digest_algorithm"]
    if algorithm["algorithm"].dotted == _PBMAC1:  # PBMAC1-params ::= SEQUENCE { keyDerivationFunc, messageAuthScheme }
        parameters = algorithm["parameters"].dump()
        derivation = der.read_children(parameters, der.read_whole(parameters, tag=der.SEQUENCE))[0]
        pbkdf2 = der.read_children(parameters, der.read_children(parameters, derivation)[1])
        yield der.read_integer(parameters, pbkdf2[1])  # salt, iterationCount, …
