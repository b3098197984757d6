"""The seal certificate that a request carries, wherever it stands and in whatever form."""

from __future__ import annotations

from contextlib import suppress

from tppkit.certificates import EidasCertificate, read_sources
from tppkit.errors import FormatError
from tppkit.httpsig.jws import parse_detached_jws
from tppkit.httpsig.message import Message
from tppkit.seals.certificate_header import MAX_CERTIFICATE_HEADER, CertificateForm, read_certificate
from tppkit.seals.diagnose.form import Fault, fault
from tppkit.seals.diagnose.other_certificates import other_certificates
from tppkit.seals.profile import SealProfile
from tppkit.seals.profiles import PROFILES


def find_certificate(message: Message, *, profile: SealProfile) -> tuple[EidasCertificate | None, tuple[Fault, ...]]:
    """The seal certificate in the request's headers, wherever and in whatever form, and what is wrong with that."""
    if profile.sends_x5c:
        return _certificate_in_signature(message, profile), ()
    if profile.certificate_header is None:
        return None, ()
    names = dict.fromkeys(
        (profile.certificate_header, *(row.certificate_header for row in PROFILES.values() if row.certificate_header))
    )
    for name in names:
        for value in message.values(name)[:2]:
            certificate, form = _read_any_form(value, profile.certificate_form)
            if certificate is None:
                return None, (fault("certificate-form", f"the {name} header holds no certificate"),)
            faults = (
                []
                if name == profile.certificate_header
                else [fault("certificate-header", f"it stands in {name}, not in {profile.certificate_header}")]
            )
            if form != profile.certificate_form.value:
                faults.append(
                    fault("certificate-form", f"it is {form}, the dialect has {profile.certificate_form.value}")
                )
            return certificate, tuple(faults)
    return None, (fault("certificate-missing", f"there is no {profile.certificate_header} header"),)


def _certificate_in_signature(message: Message, profile: SealProfile) -> EidasCertificate | None:
    for value in message.values(profile.carrier)[:2]:
        with suppress(FormatError):
            header, _ = parse_detached_jws(value.strip(" \t"))
            if header.certificates:
                return EidasCertificate.from_der(header.certificates[0])
    return None


def _read_any_form(value: str, expected: CertificateForm) -> tuple[EidasCertificate | None, str]:
    """The certificate in a header, in the form that is expected or in another; and which that is."""
    for form in dict.fromkeys((expected, *CertificateForm)):
        with suppress(FormatError):
            return read_certificate(value, form), form.value
    if len(value) <= MAX_CERTIFICATE_HEADER:
        with suppress(FormatError):
            found = read_sources(value.encode("latin-1", "replace"), with_pkcs12=False)
            for der in [one.der for one in found if one.kind == "certificate"][:1]:
                return EidasCertificate.from_der(der), _form_of(value)
        for der, form_in_words in other_certificates(value):
            with suppress(FormatError):
                return EidasCertificate.from_der(der), form_in_words
    return None, ""


def _form_of(value: str) -> str:
    """In words: a form that no dialect has."""
    if value.strip().startswith(":"):
        return "base64 between colons, as in RFC 9440"
    if "%" in value:
        return "PEM in percent escapes, as proxies forward it"
    return "several certificates, or one among other text"
