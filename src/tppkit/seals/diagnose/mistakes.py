"""The known mistakes: what a sender did, and what to do instead.

A row here is recognised by the examination itself. Rows that change a body are in `bodies`, rows that change a signing string in
`targets` and `strings`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from tppkit.seals.diagnose.encodings import ENCODINGS


class Part(Enum):
    """The part of a sealed request that a mistake is in."""

    FORM = "headers"
    COVERAGE = "coverage"
    KEY = "key"
    BODY = "body"
    DIGEST = "digest"
    STRING = "signing string"
    SIGNATURE = "signature"
    DIALECT = "dialect"
    REFUSED = "what the verifier refuses besides"


@dataclass(frozen=True, slots=True)
class Mistake:
    """One known mistake.

        Mistake("uncovered", Part.COVERAGE, "The signature does not cover …", "Cover it.")

    Attributes:
        name: short, lower case, stable.
        part: what it is in.
        cause: what the sender did, one sentence.
        fix: what to do instead.
    """

    name: str
    part: Part
    cause: str
    fix: str


class Finding(NamedTuple):
    """A mistake that was proven, and the values that prove it."""

    mistake: Mistake
    evidence: str


_USUAL_ALGORITHM = "Sign with the algorithm that the bank's dialect names for this key."

# Section 12 of the NextGenPSD2 guidelines and the dialects of `PROFILES` say what is due.
_ROWS: tuple[tuple[str, Part, str, str], ...] = (
    ("signature-missing", Part.FORM, "No header of the dialect holds a signature.",
     "Send the signature in the header that the dialect names."),
    ("signature-form", Part.FORM, "The signature header is not written as draft-cavage requires.",
     'Write keyId="…",algorithm="…",headers="…",signature="…": double quotes, commas without spaces, header names in lower case.'),
    ("parameter-missing", Part.FORM, "The signature header lacks a parameter.", "Give keyId, algorithm, headers and signature."),
    ("time-not-allowed", Part.FORM, "headers names (created) or (expires), which the signature's algorithm must not cover.",
     "Cover what the dialect names, with an algorithm that it has."),
    ("certificate-missing", Part.FORM, "The request does not carry the seal certificate.",
     "Send it where the dialect expects it: in its header, or in x5c of the signature."),
    ("certificate-form", Part.FORM, "The seal certificate is encoded in another form than the dialect expects.",
     "Encode it once, in the dialect's form: base64 of DER on one line for most banks."),
    ("certificate-header", Part.FORM, "The seal certificate is in another header than the dialect names.",
     "Send it in the header that the dialect names."),
    ("uncovered", Part.COVERAGE, "The signature does not cover a header that the dialect requires.",
     "Send it, name it in headers, and sign its line."),
    ("key-of-qwac", Part.KEY, "The signature was made with the key of the QWAC instead of the seal certificate.",
     "Sign with the QSealC's private key."),
    ("key-of-other", Part.KEY, "The signature was made with the key of another certificate than the one it was sent with.",
     "Send the certificate of the key that signs; after a renewal change both at once."),
    ("certificate-not-seal", Part.KEY, "The certificate that was sent is not a seal certificate (QSealC).",
     "Send the QSealC, and sign with its key."),
    ("digest-replaced", Part.DIGEST, "The digest header was changed after signing: the digest that was signed fits the body.",
     "Set the digest once, before signing; look for a client or gateway that sets it again."),
    ("digest-label", Part.DIGEST, "The digest header names one algorithm and holds the hash of another.",
     "Name the algorithm that was used: SHA-256 or SHA-512."),
    ("digest-weak", Part.DIGEST, "The digest header holds a hash that banks do not accept, such as SHA-1.",
     "Hash with SHA-256 or SHA-512."),
    ("digest-name", Part.DIGEST, "The digest header spells the algorithm in an unregistered way.",
     "Write SHA-256= or SHA-512=, with the hyphen."),
    ("digest-bare", Part.DIGEST, "The digest header holds the hash without the name of its algorithm.",
     "Write the algorithm's name and an equals sign before the base64."),
    ("digest-in-colons", Part.DIGEST, "The hash in the digest header is between colons or quotes.",
     "Colons belong to Content-Digest (RFC 9530), not to Digest."),
    ("signature-scheme", Part.SIGNATURE, "The signature was made by another scheme than is due (PSS, PKCS#1, ECDSA in DER or bare).",
     _USUAL_ALGORITHM),
    ("pss-salt-length", Part.SIGNATURE, "The RSASSA-PSS signature has a salt of another length than its hash.",
     "Use a salt as long as the hash."),
    ("signature-hash", Part.SIGNATURE, "The signature is over another hash than is due.", _USUAL_ALGORITHM),
    ("signature-hash-weak", Part.SIGNATURE, "The signature is over a hash that banks do not accept, such as SHA-1.",
     "Sign with SHA-256 or SHA-512."),
    *((f"{kind.value}-{name}", kind, f"The {kind.value} {what}.", fix)
      for kind in (Part.DIGEST, Part.SIGNATURE) for name, (what, fix, _) in ENCODINGS.items()),
    ("other-dialect", Part.DIALECT, "The request is sealed correctly, in another bank's dialect.",
     "Seal in the dialect of the bank that is called (--profile)."),
)  # fmt: skip

MISTAKES: Mapping[str, Mistake] = MappingProxyType({row[0]: Mistake(*row) for row in _ROWS})


def finding(name: str, evidence: str) -> Finding:
    """A proven mistake, by the name of its row."""
    return Finding(MISTAKES[name], evidence)
