"""The seal certificate of a request, in the dialect's header or another bank's, in whatever form it was encoded."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import unquote

from tppkit._encoding import decode_base64
from tppkit.certificates import EidasCertificate, read_sources
from tppkit.errors import FormatError, VerificationError
from tppkit.httpsig.jws import parse_detached_jws
from tppkit.httpsig.message import Message
from tppkit.seals.certificate_header import MAX_CERTIFICATE_HEADER, CertificateForm, read_certificate, write_certificate
from tppkit.seals.diagnose.mistakes import Finding, finding
from tppkit.seals.key_id import KeyIdForm, KeyIdStyle, Radix, verify_key_id
from tppkit.seals.policy import demands_of
from tppkit.seals.profile import SealProfile
from tppkit.seals.profiles import PROFILES

_MAX_SENT = 8  # certificates of one chain
_CHAIN = "a chain, or a certificate among other text"
_MAX_WRAPPINGS = 2
_KEY_ID = re.compile(r'(?i)keyid="([^"]{1,2048})"')

# How a keyId is written that names a certificate: each style once, those of dialects first.
_NAMING = (KeyIdForm.CERTIFICATE, KeyIdForm.SERIAL, KeyIdForm.THUMBPRINT)
_STYLES = {row.key_id: f"as {row.name} has it" for row in reversed([*PROFILES.values()]) if row.key_id.form in _NAMING}
_SPELLINGS: tuple[tuple[KeyIdStyle, str], ...] = (
    *_STYLES.items(),
    (KeyIdStyle(radix=Radix.DECIMAL, issuer_optional=True), "with the serial in decimal"),
    (KeyIdStyle(form=KeyIdForm.SERIAL), "as the serial alone, in hexadecimal"),
)


def spelling_of(key_id: str, certificate: EidasCertificate) -> str | None:
    """How a keyId that names this certificate is written; None if it does not name it."""
    for style, words in _SPELLINGS:
        with suppress(FormatError, VerificationError):
            verify_key_id(key_id, certificate, style=style)
            return words
    return None


class SentCertificate(NamedTuple):
    """The seal certificate of a request.

    Attributes:
        certificate: the seal's; None if it is not known.
        others: further certificates of the request, whose keys may have signed as well.
        message: the request with the certificate as the dialect expects it.
        findings: what is wrong with how it was sent.
    """

    certificate: EidasCertificate | None
    others: tuple[EidasCertificate, ...]
    message: Message
    findings: tuple[Finding, ...] = ()


def _unquoted(text: str) -> str:
    bare = text.strip(" \t")
    return bare[1:-1] if len(bare) > 1 and bare[0] == bare[-1] and bare[0] in "\"':" else text


def _with_line_breaks(text: str) -> str:
    return text.replace("\\r", "").replace("\\n", "\n" if "-----" in text else "")


def _standard_alphabet(text: str) -> str:
    bare = text.replace("-", "+").replace("_", "/").rstrip("=") if "-----" not in text else text
    return bare + "=" * (-len(bare) % 4) if "-----" not in text else text


def _encoded_text(text: str) -> str:
    with suppress(FormatError):
        return decode_base64(text.strip(" \t"), what="the certificate header").decode("latin-1")
    return text


# What was done to a certificate besides encoding it, and its inverse.
DECODERS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("in quotes or colons (as in RFC 9440)", _unquoted),
    ("percent-encoded", unquote),
    ("with line breaks written as \\n", _with_line_breaks),
    ("in the base64 alphabet for URLs", _standard_alphabet),
    ("in base64 once more", _encoded_text),
)


def decode_certificates(value: str, expected: CertificateForm) -> tuple[tuple[EidasCertificate, ...], str]:
    """The certificates in a header, and their form in words; none if it holds none.

    Args:
        value: as received.
        expected: the dialect's form, which is tried first.
    """
    texts: dict[str, tuple[str, ...]] = {value: ()} if len(value) <= MAX_CERTIFICATE_HEADER else {}
    newest = list(texts)
    for _ in range(_MAX_WRAPPINGS + 1):
        for text in newest:
            for form in dict.fromkeys((expected, *CertificateForm)):
                with suppress(FormatError):
                    certificate = _with_key(read_certificate(text, form))
                    is_wrapped_pem = form is CertificateForm.PEM and texts[text]  # it may have its line breaks
                    return (certificate,), ", ".join(("PEM" if is_wrapped_pem else form.value, *texts[text]))
        unwrapped = {decode(text): (words, *texts[text]) for text in newest for words, decode in DECODERS}
        newest = [text for text in unwrapped if text not in texts]
        texts |= {text: unwrapped[text] for text in newest}
    for text, wrappings in texts.items():  # after all wrappings: a chain is read through some of them
        with suppress(FormatError):
            chain = _read_chain(text)
            if chain:
                return chain, ", ".join((_CHAIN, *wrappings))
    return (), ""


def _read_chain(text: str) -> tuple[EidasCertificate, ...]:
    if "," in text and "-----" not in text:
        parts = [part.strip(" \t") for part in text.split(",", _MAX_SENT)[:_MAX_SENT]]
        return tuple([_with_key(read_certificate(part, CertificateForm.DER)) for part in parts])
    sources = read_sources(text.encode("latin-1", "replace"), with_pkcs12=False)[:_MAX_SENT]
    return tuple([_with_key(EidasCertificate.from_der(one.der)) for one in sources if one.kind == "certificate"])


def _with_key(certificate: EidasCertificate) -> EidasCertificate:
    """The certificate, whose key is read on first use, and rejected if it cannot be."""
    _ = certificate.public_key
    return certificate


def find_certificate(message: Message, *, profile: SealProfile, known: Sequence[EidasCertificate]) -> SentCertificate:
    """The seal certificate that a request carries, or else the first that is known.

    Args:
        message: the request.
        profile: the dialect it should be in.
        known: certificates that the caller gave; a QWAC among them is never taken for the seal's.
    """
    known = [one for one in known if not _is_qwac(one)]
    if profile.sends_x5c:
        return _in_jws(message, profile, known)
    if profile.certificate_header is None:
        return SentCertificate(_chosen(known, message), (), message)
    headers = dict.fromkeys(
        [profile.certificate_header, *[name for row in PROFILES.values() if (name := row.certificate_header)]]
    )
    found = [(name, message.values(name)) for name in headers if message.values(name)]
    for name, values in found:
        sent, form = decode_certificates(values[0].strip(" \t"), profile.certificate_form)
        certificate = _chosen(sent, message)
        if certificate is None:
            continue
        findings = []
        if name.lower() != profile.certificate_header.lower():
            findings.append(finding("certificate-header", f"it is in {name}, not in {profile.certificate_header}"))
        if form != profile.certificate_form.value:
            evidence = f"it is {form}; the dialect has {profile.certificate_form.value}"
            findings.append(finding("certificate-form", evidence))
        others = tuple([one for one in sent if one != certificate and not one.extensions.is_ca])
        message = _with_certificate(message, certificate, profile) if findings else message
        return SentCertificate(certificate, others, message, (*findings, *_not_seal(certificate)))
    own = profile.certificate_header
    if any(name == own for name, _ in found):
        wrong = finding("certificate-form", f"{own} holds no certificate that can be read")
    else:
        wrong = finding("certificate-missing", f"there is no {own} header")
    certificate = _chosen(known, message)
    if certificate is not None:
        message = _with_certificate(message, certificate, profile)
    return SentCertificate(certificate, (), message, (wrong,))


def _is_qwac(certificate: EidasCertificate) -> bool:
    return "web" in certificate.qc.types and "eseal" not in certificate.qc.types


def _not_seal(certificate: EidasCertificate) -> tuple[Finding, ...]:
    evidence = f"{certificate.subject} is for websites (QWAC)"
    return (finding("certificate-not-seal", evidence),) if _is_qwac(certificate) else ()


def _in_jws(message: Message, profile: SealProfile, known: Sequence[EidasCertificate]) -> SentCertificate:
    for value in message.values(profile.carrier)[:1]:
        with suppress(FormatError):
            ders = parse_detached_jws(value.strip(" \t"))[0].certificates
            sent = [_with_key(EidasCertificate.from_der(der)) for der in ders]
            others = tuple([one for one in sent[1:] if not one.extensions.is_ca])
            found = _not_seal(sent[0]) if sent else ()
            return SentCertificate(sent[0] if sent else _chosen(known, message), others, message, found)
    return SentCertificate(_chosen(known, message), (), message)


def _chosen(certificates: Sequence[EidasCertificate], message: Message) -> EidasCertificate | None:
    """The one that the signature names, or else the first that is for seals, or else the first."""
    texts = [
        text
        for name in ("signature", "authorization")
        for value in message.values(name)
        for text in _KEY_ID.findall(value)
    ]
    named = (one for one in certificates if any(spelling_of(text, one) is not None for text in texts[:4]))
    seals = (one for one in certificates if "eseal" in one.qc.types and not one.extensions.is_ca)
    return next(iter((*named, *seals, *certificates)), None)


def _with_certificate(message: Message, certificate: EidasCertificate, profile: SealProfile) -> Message:
    name = demands_of(profile).certificate_header
    others = [header for header in message.headers if header[0].lower() != name]
    text = write_certificate(certificate, profile.certificate_form)
    return message._replace(headers=(*others, (profile.certificate_header or "", text)))
