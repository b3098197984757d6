"""The seal certificate of a request, in the dialect's header or another bank's, in whatever form it was encoded."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import unquote

from tppkit._encoding import decode_base64
from tppkit.certificates import EidasCertificate
from tppkit.errors import FormatError
from tppkit.httpsig.jws import parse_detached_jws
from tppkit.httpsig.message import Message
from tppkit.seals.certificate_header import MAX_CERTIFICATE_HEADER, CertificateForm, read_certificate, write_certificate
from tppkit.seals.diagnose.mistakes import Finding, finding
from tppkit.seals.diagnose.signature_header import with_header
from tppkit.seals.profile import SealProfile
from tppkit.seals.profiles import PROFILES

_MAX_SENT = 8  # certificates of one chain
_MAX_WRAPPINGS = 2
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----")


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
    """The certificates in a header, and their form in words if it is not the expected one; none if it holds none."""
    texts: dict[str, tuple[str, ...]] = {value: ()} if len(value) <= MAX_CERTIFICATE_HEADER else {}
    for _ in range(_MAX_WRAPPINGS + 1):
        for text, wrappings in texts.items():
            certificates, form = _read(text, expected)
            if certificates:
                is_expected = form == expected.value and not wrappings
                return certificates, "" if is_expected else ", ".join((form.partition(" without")[0], *wrappings))
        unwrapped = [(decode(text), (words, *texts[text])) for text in texts for words, decode in DECODERS]
        texts = {text: wrappings for text, wrappings in reversed(unwrapped) if text not in texts}
    return (), ""


def _read(text: str, expected: CertificateForm) -> tuple[tuple[EidasCertificate, ...], str]:
    """The certificates in a text from which nothing has to be unwrapped, and their form."""
    for form in dict.fromkeys((expected, *CertificateForm)):
        with suppress(FormatError):
            return (_with_key(read_certificate(text, form)),), form.value
    form, parts = CertificateForm.PEM, _PEM.findall(text)
    if "-----" not in text:
        form, parts = CertificateForm.DER, [part.strip(" \t") for part in text.split(",", _MAX_SENT)]
    with suppress(FormatError):
        chain = [_with_key(read_certificate(part, form)) for part in parts[:_MAX_SENT]]
        return tuple(chain), "a chain, or a certificate among other text"
    return (), ""


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
    given = _seal_of([one for one in known if not _is_qwac(one)])
    own = profile.certificate_header
    if profile.sends_x5c:
        return _in_jws(message, profile, given)
    if own is None:
        return SentCertificate(given, (), message)
    for name in dict.fromkeys((own, *[header for row in PROFILES.values() if (header := row.certificate_header)])):
        value = next(iter(message.values(name)), "").strip(" \t")
        sent, form = decode_certificates(value, profile.certificate_form)
        certificate = _seal_of(sent)
        if certificate is None:
            continue
        findings = [finding("certificate-header", f"it is in {name}, not in {own}")] * (name.lower() != own.lower())
        evidence = f"it is {form}; the dialect has {profile.certificate_form.value}"
        findings += [finding("certificate-form", evidence)] * bool(form)
        others = tuple([one for one in sent if one != certificate and not one.extensions.is_ca])
        if findings:  # otherwise the header stays as it is, twice if it was sent twice
            message = with_header(message, own, write_certificate(certificate, profile.certificate_form))
        return SentCertificate(certificate, others, message, (*findings, *_not_seal(certificate)))
    wrong = finding("certificate-missing", f"there is no {own} header")
    if message.values(own):
        wrong = finding("certificate-form", f"{own} holds no certificate that can be read")
    if given is not None:
        message = with_header(message, own, write_certificate(given, profile.certificate_form))
    return SentCertificate(given, (), message, (wrong,))


def _is_qwac(certificate: EidasCertificate) -> bool:
    return "web" in certificate.qc.types and "eseal" not in certificate.qc.types


def _not_seal(certificate: EidasCertificate) -> tuple[Finding, ...]:
    evidence = f"{certificate.subject} is for websites (QWAC)"
    return (finding("certificate-not-seal", evidence),) if _is_qwac(certificate) else ()


def _in_jws(message: Message, profile: SealProfile, given: EidasCertificate | None) -> SentCertificate:
    for value in message.values(profile.carrier)[:1]:
        with suppress(FormatError):
            ders = parse_detached_jws(value.strip(" \t"))[0].certificates
            sent = [_with_key(EidasCertificate.from_der(der)) for der in ders]
            others = tuple([one for one in sent[1:] if not one.extensions.is_ca])
            return (
                SentCertificate(sent[0], others, message, _not_seal(sent[0]))
                if sent
                else SentCertificate(given, (), message)
            )
    return SentCertificate(given, (), message)


def _seal_of(certificates: Sequence[EidasCertificate]) -> EidasCertificate | None:
    """The first one that is for seals, or else the first that is no authority's, or else the first."""
    return min(certificates, key=lambda one: ("eseal" not in one.qc.types, one.extensions.is_ca), default=None)
