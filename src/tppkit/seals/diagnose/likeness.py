"""Whether a header's value may be a signature that nobody reads: however it is written, among all that requests carry besides."""

from __future__ import annotations

import re
from contextlib import suppress
from urllib.parse import unquote_to_bytes

from tppkit.certificates import EidasCertificate
from tppkit.errors import FormatError
from tppkit.seals.diagnose.digests import reads_as_digest
from tppkit.seals.diagnose.jws_form import decode_loosely, decode_object, without_encrypted
from tppkit.seals.profile import SealProfile

_SHORTEST = 80  # characters: Ed25519 and P-256 have 86 in base64; trace contexts up to 68, a SHA-256 64 in hexadecimal
# Its parameter, or the two parts of a JSON Web Signature.
_SAYS_SO = re.compile(r"signature[\"'\s]*[=:]", re.IGNORECASE)
_TWO_PARTS = re.compile(r"[A-Za-z0-9_-]{16}={0,2}\.\.[A-Za-z0-9_-]{16}")
# A list of 61 bytes and more, as numbers or in hexadecimal, whatever parts them.
_BYTES = re.compile(r"(?:[^0-9A-Za-z]{1,3}+(?:0?x)?[0-9A-Fa-f]{1,3}){60}")
_BROKEN_BY = re.compile(r"(?:\\[rn]|[\s,\\])+")
_LONG = tuple(
    re.compile(rf"(?<![{alphabet}])[{alphabet}]{{{_SHORTEST},}}+") for alphabet in ("A-Za-z0-9+/", "A-Za-z0-9_~-")
)  # the second for addresses, with the sign that CloudFront has besides
_KINDS = tuple(map(re.compile, ("[0-9]", "[A-Z]", "[a-z]")))
# What is none: an address up to its query, and what begins in base64 as one sequence of DER within another, as certificates alone
# do: of a CMS the first part is an identifier, of an ECDSA signature a number.
_ADDRESS = re.compile(r"https?://[^\s?#\"',;]*+", re.IGNORECASE)
_CERTIFICATE = re.compile(r"MI[I-L][A-Za-z0-9+/_-]{2}[DTjz]C[BC]")
_SIGN = re.compile(r"(?:\s|\\+(?:[rn]|u000[ad]|(?=/)))*+([A-Za-z0-9+/_-])")  # of base64, in one line or in several
_TOGETHER = re.compile(r"[A-Za-z0-9+/_-]*+")
_MAX_CERTIFICATES = 16  # that are cut out of one value: what is left of more counts
_WORD = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{24,}+={0,2}")
_BEARER = re.compile(r"[ \t]*bearer[ \t]+[A-Za-z0-9_-]+\.([A-Za-z0-9_-]+)\.[A-Za-z0-9_-]+[ \t]*", re.IGNORECASE)


def may_be_signature(name: str, value: str, profile: SealProfile) -> bool:
    """Whether a value may be a signature, on the generous side: that there is none is said only where no value may be one.

    It is where it says so, where it has two parts as a JSON Web Signature, or where something in it is as long as a signature and
    as mixed: but a digest in a header of digests, a certificate, an address, text in base64, an access token, and a cookie.

    Args:
        name: of the header.
        value: as received.
        profile: the dialect the request should be in.
    """
    lower = name.lower()
    text = without_encrypted(unquote_to_bytes(value.encode("latin-1", "replace")).decode("latin-1"))
    if _SAYS_SO.search(text) or _TWO_PARTS.search(_BROKEN_BY.sub("", text)):
        return True
    if lower == "cookie" or _is_access_token(lower, value):
        return False
    if "digest" in lower or lower == profile.digest_name:
        text = ",".join(part for part in text.split(",") if len(part) < _SHORTEST or not reads_as_digest(part.strip()))
    if _BYTES.search(f" {text}"):
        return True
    # Certificates are as long as they say only while nothing in them was changed; the text in base64 may be PEM.
    bare = _without_certificates(_ADDRESS.sub(";", text))
    return _has_long_run(_without_certificates(_WORD.sub(_as_text, bare)))


def _is_access_token(name: str, value: str) -> bool:
    """Whether it is one of RFC 6750 that says so itself, by the claims of RFC 9068: no seal of a request has them."""
    token = _BEARER.fullmatch(value) if name == "authorization" else None
    claims = decode_object(token[1]) if token else None
    return claims is not None and not claims.keys().isdisjoint(("iss", "exp"))


def _as_text(word: re.Match[str]) -> str:
    """The text that a word is in base64; the word where it is none, or a protected header, which is of a signature."""
    raw = decode_loosely(word[0])
    is_text = raw != b"" and raw.isascii() and "alg" not in (decode_object(word[0]) or {})
    return raw.decode("ascii") if is_text else word[0]


def _has_long_run(text: str) -> bool:
    """Whether base64 or hexadecimal as long as a signature stands there, in whatever pieces."""
    bare = _BROKEN_BY.sub("", text)
    for run in (run for alphabet in _LONG for run in alphabet.findall(bare)):
        digits, upper, lower = (kind.search(run) is not None for kind in _KINDS)
        if digits and (run.isalnum() or (upper and lower)):
            return True
    return False


def _without_certificates(text: str) -> str:
    """The text without the certificates in base64 in it: each is as long as its first bytes say.

    One that is cut off ends with the signs that stand together: behind it there may be a signature.
    """
    kept, end = [], 0
    for _ in range(_MAX_CERTIFICATES):
        begin = _CERTIFICATE.search(text, end)
        if begin is None:
            break
        kept.append(text[end : begin.start()])
        end = _behind_certificate(text, begin)
    return ";".join((*kept, text[end:]))


def _behind_certificate(text: str, begin: re.Match[str]) -> int:
    length = 4 + int.from_bytes(decode_loosely(begin[0])[2:4])
    end, signs = begin.start(), list[str]()
    while len(signs) * 3 < length * 4 and (sign := _SIGN.match(text, end)) is not None:
        end = sign.end()
        signs.append(sign[1])
    with suppress(FormatError):
        EidasCertificate.from_der(decode_loosely("".join(signs)))
        return end
    together = _TOGETHER.match(text, begin.start())
    return together.end() if together else end
