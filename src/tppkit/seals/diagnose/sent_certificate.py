"""The seal certificate that a request carries, wherever it stands and in whatever form."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from tppkit.certificates import EidasCertificate, read_sources
from tppkit.errors import FormatError
from tppkit.httpsig.message import Message
from tppkit.seals.certificate_header import MAX_CERTIFICATE_HEADER, CertificateForm, read_certificate
from tppkit.seals.diagnose.form import Fault, fault
from tppkit.seals.diagnose.jws_form import sent_jws
from tppkit.seals.diagnose.other_certificates import other_certificates
from tppkit.seals.profile import SealProfile
from tppkit.seals.profiles import PROFILES

_X5C = "x5c"


class _Place(NamedTuple):
    name: str
    text: str
    is_own: bool


def find_certificate(message: Message, *, profile: SealProfile) -> tuple[EidasCertificate | None, tuple[Fault, ...]]:
    """The seal certificate in a request, wherever and in whatever form, and what is wrong with that.

    Args:
        message: the request.
        profile: the dialect it should be in; nothing is wrong where that has no place for a certificate.
    """
    own = _X5C if profile.sends_x5c else profile.certificate_header
    unreadable: list[str] = []
    for place in sorted(_places(message, own, profile), key=lambda place: not place.is_own):
        certificate, form = _read_any_form(place.text, profile.certificate_form)
        if certificate is None:
            unreadable.append(place.name)
        elif own is None:
            return certificate, ()
        else:
            return certificate, (*map(_holds_none, unreadable), *_faults_of(place, form, own, profile))
    unread = own == _X5C and any(jws.header is None for jws in sent_jws(message, profile))
    if own is None or unread:  # of a header that cannot be read nothing can be said
        return None, ()
    if unreadable:
        return None, tuple(map(_holds_none, unreadable))
    where = "no x5c in a JSON Web Signature" if own == _X5C else f"no {own} header"
    return None, (fault("certificate-missing", f"there is {where}"),)


def _places(message: Message, own: str | None, profile: SealProfile) -> Iterator[_Place]:
    """Every place in which a dialect has the certificate, with what stands there."""
    headers = (own, *(row.certificate_header for row in PROFILES.values()))
    for name in dict.fromkeys(name for name in headers if name and name != _X5C):
        yield from (_Place(name, value, name == own) for value in message.values(name)[:2])
    for jws in sent_jws(message, profile):
        certificates = (jws.header or {}).get("x5c")
        first = certificates[0] if isinstance(certificates, list) and certificates else certificates
        if isinstance(first, str):
            yield _Place(_X5C, first, own == _X5C)


def _holds_none(name: str) -> Fault:
    return fault("certificate-form", f"{name} holds no certificate that can be read")


def _faults_of(place: _Place, form: str, own: str, profile: SealProfile) -> Iterator[Fault]:
    if not place.is_own:
        yield fault("certificate-header", f"it stands in {place.name}, not in {own}")
    expected = CertificateForm.DER if place.name == _X5C else profile.certificate_form
    if form != expected.value:
        yield fault("certificate-form", f"it is {form}, the dialect has {expected.value}")


def _read_any_form(value: str, expected: CertificateForm) -> tuple[EidasCertificate | None, str]:
    """The certificate in a header, in the form that is expected or in another; and which that is."""
    for form in dict.fromkeys((expected, *CertificateForm)):
        with suppress(FormatError):
            return _with_key(read_certificate(value, form)), form.value
    if len(value) <= MAX_CERTIFICATE_HEADER:
        with suppress(FormatError):
            found = read_sources(value.encode("latin-1", "replace"), with_pkcs12=False)
            for der in [one.der for one in found if one.kind == "certificate"][:1]:
                return _with_key(EidasCertificate.from_der(der)), _form_of(value)
        for der, form_in_words in other_certificates(value):
            with suppress(FormatError):
                return _with_key(EidasCertificate.from_der(der)), form_in_words
    return None, ""


def _with_key(certificate: EidasCertificate) -> EidasCertificate:
    """The certificate, whose key is read on first use, and refused where it cannot be."""
    _ = certificate.public_key
    return certificate


def _form_of(value: str) -> str:
    """In words: a form that no dialect has."""
    if value.strip().startswith(":"):
        return "base64 between colons, as in RFC 9440"
    if "%" in value:
        return "PEM in percent escapes, as proxies forward it"
    return "several certificates, or one among other text"
