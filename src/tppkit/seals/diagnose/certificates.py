"""The seal certificate of a request, in the dialect's header or another bank's, in whatever form it was encoded."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from urllib.parse import unquote

from tppkit._encoding import decode_base64
from tppkit.certificates import EidasCertificate
from tppkit.errors import FormatError
from tppkit.httpsig.jws import parse_detached_jws
from tppkit.message import Message
from tppkit.seals.certificate_header import MAX_CERTIFICATE_HEADER, CertificateForm, read_certificate, write_certificate
from tppkit.seals.diagnose.examination import Examination
from tppkit.seals.diagnose.signature_header import with_header
from tppkit.seals.profile import SealProfile
from tppkit.seals.profiles import PROFILES

_MAX_SENT = 8  # certificates of one chain
_MAX_WRAPPINGS = 2
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----")


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


def examine_certificate(examination: Examination) -> None:
    """Find the seal certificate that a request carries, or else the first that was given and is no QWAC's.

    From here on the request has it as the dialect expects it.
    """
    message, profile = examination.message, examination.profile
    own = profile.certificate_header
    if own is not None:
        sent = _in_headers(examination, own)
    else:
        sent = _in_jws(message, profile) if profile.sends_x5c else ()
    given = _seal_of([one for one in examination.candidates if not _is_qwac(one)])
    examination.certificate = certificate = (sent[0] if profile.sends_x5c else _seal_of(sent)) if sent else given
    if certificate is None:
        return
    if own is not None and examination.findings:  # otherwise the header stays as it is, twice if it was sent twice
        written = write_certificate(certificate, profile.certificate_form)
        examination.message = with_header(message, own, written)
    if _is_qwac(certificate):
        examination.find("certificate-not-seal", f"{certificate.subject} is for websites (QWAC)")
    others = [one for one in sent if not one.extensions.is_ca]
    examination.candidates = tuple(dict.fromkeys((certificate, *examination.candidates, *others)))
    examination.choose_origin()


def _in_headers(examination: Examination, own: str) -> tuple[EidasCertificate, ...]:
    """The certificates in the dialect's header, or else in another bank's."""
    expected = examination.profile.certificate_form
    for name in dict.fromkeys((own, *[header for row in PROFILES.values() if (header := row.certificate_header)])):
        value = next(iter(examination.message.values(name)), "").strip(" \t")
        sent, form = decode_certificates(value, expected)
        if sent and name.lower() != own.lower():
            examination.find("certificate-header", f"it is in {name}, not in {own}")
        if sent and form:
            examination.find("certificate-form", f"it is {form}; the dialect has {expected.value}")
        if sent:
            return sent
    if examination.message.values(own):
        examination.find("certificate-form", f"{own} holds no certificate that can be read")
    else:
        examination.find("certificate-missing", f"there is no {own} header")
    return ()


def _in_jws(message: Message, profile: SealProfile) -> tuple[EidasCertificate, ...]:
    """The certificates in x5c, the signer's first."""
    with suppress(FormatError):
        value = next(iter(message.values(profile.carrier)), "").strip(" \t")
        ders = parse_detached_jws(value)[0].certificates
        return tuple([_with_key(EidasCertificate.from_der(der)) for der in ders])
    return ()


def _is_qwac(certificate: EidasCertificate) -> bool:
    return "web" in certificate.qc.types and "eseal" not in certificate.qc.types


def _seal_of(certificates: Sequence[EidasCertificate]) -> EidasCertificate | None:
    """The first one that is for seals, or else the first that is no authority's, or else the first."""
    return min(certificates, key=lambda one: ("eseal" not in one.qc.types, one.extensions.is_ca), default=None)
