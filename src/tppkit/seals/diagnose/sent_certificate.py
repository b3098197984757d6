"""The seal certificate that a request carries, wherever it stands and in whatever form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from tppkit.certificates import EidasCertificate, read_sources
from tppkit.errors import FormatError
from tppkit.httpsig.message import Message
from tppkit.seals.certificate_header import MAX_CERTIFICATE_HEADER, CertificateForm, read_certificate
from tppkit.seals.diagnose.form import Fault, fault
from tppkit.seals.diagnose.judging import names_certificate
from tppkit.seals.diagnose.jws_form import sent_jws
from tppkit.seals.diagnose.other_certificates import MAX_SENT, other_certificates
from tppkit.seals.profile import SealProfile
from tppkit.seals.profiles import PROFILES

_X5C = "x5c"
_MAX_CANDIDATES = 4  # of those that were sent; more than a QWAC and two seals, around a renewal, is no use


class _Place(NamedTuple):
    name: str
    texts: tuple[str, ...]
    is_own: bool


class _Sent(NamedTuple):
    certificate: EidasCertificate | None  # None where it cannot be read
    form: str


def find_certificates(
    message: Message, *, profile: SealProfile, key_ids: Sequence[str] = (), unread: bool = False
) -> tuple[tuple[EidasCertificate, ...], tuple[Fault, ...]]:
    """The seal certificate in a request, wherever and in whatever form, and what is wrong with that.

    Behind it stand the others of its place whose keys may have signed: none of an authority.

    Args:
        message: the request.
        profile: the dialect it should be in; nothing is wrong where that has no place for a certificate.
        key_ids: what the signature may say of its key; tells the seal's from others that are sent with it.
        unread: something that may be a signature could not be read, so a certificate may stand in that.
    """
    own = _X5C if profile.sends_x5c else profile.certificate_header
    unreadable: list[Fault] = []
    for place in sorted(_places(message, own, profile), key=lambda place: not place.is_own):
        expected = CertificateForm.DER if place.name == _X5C else profile.certificate_form
        sent = tuple(one for text in place.texts for one in _read_any_form(text, expected))
        number = _number_of_seal(sent, key_ids, profile)
        if number is None:
            unreadable.append(_unread(place.name, sent))
            continue
        faults = () if own is None else (*unreadable, *_faults_of(place, sent, number, own, expected))
        return _candidates(sent, number), faults
    if own is None or (unread and own == _X5C):  # of what cannot be read it is not said that nothing stands in it
        return (), ()
    if unreadable or unread:
        return (), tuple(unreadable)
    where = "no x5c in a JSON Web Signature" if own == _X5C else f"no {own} header"
    return (), (fault("certificate-missing", f"there is {where}"),)


def _places(message: Message, own: str | None, profile: SealProfile) -> Iterator[_Place]:
    """Every place in which a dialect has the certificate, with what stands there."""
    headers = (own, *(row.certificate_header for row in PROFILES.values()))
    for name in dict.fromkeys(name for name in headers if name and name != _X5C):
        yield from (_Place(name, (value,), name == own) for value in message.values(name)[:2])
    for jws in sent_jws(message, profile):
        certificates = (jws.header or {}).get("x5c", [])
        listed = certificates if isinstance(certificates, list) else [certificates]
        if listed:
            texts = [one if isinstance(one, str) else "" for one in listed[:MAX_SENT]]
            yield _Place(_X5C, tuple(texts), own == _X5C)


def _number_of_seal(sent: Sequence[_Sent], key_ids: Sequence[str], profile: SealProfile) -> int | None:
    """Which of the certificates that were sent together is the seal's; None where that is not one that can be read.

    It is none of an authority while another was sent; of several it is the one that the signature names, or else the first that
    says it is for seals, or else the first.
    """
    readable = {number: one.certificate for number, one in enumerate(sent) if one.certificate is not None}
    ends = [number for number, certificate in readable.items() if not certificate.extensions.is_ca]
    whole = len(readable) == len(sent)
    among = ends or (list(readable) if whole else [])
    if whole and len(among) == 1:
        return among[0]
    likeliest = next((n for n in among if "eseal" in readable[n].qc.types), among[0]) if among else None
    unnamed = likeliest if whole or 0 in among else None
    named = (n for n in among if any(names_certificate(text, readable[n], profile) for text in key_ids))
    return next(named, unnamed)


def _candidates(sent: Sequence[_Sent], number: int) -> tuple[EidasCertificate, ...]:
    """The seal's, then the others that are none of an authority."""
    ends = [one.certificate for one in sent if one.certificate is not None and not one.certificate.extensions.is_ca]
    certificates = dict.fromkeys(one for one in (sent[number].certificate, *ends) if one is not None)
    return tuple(certificates)[:_MAX_CANDIDATES]


def _unread(name: str, sent: Sequence[_Sent]) -> Fault:
    some = any(one.certificate is not None for one in sent)
    told = "a certificate that cannot be read" if some else "no certificate that can be read"
    return fault("certificate-form", f"{name} holds {told}")


def _faults_of(
    place: _Place, sent: Sequence[_Sent], number: int, own: str, expected: CertificateForm
) -> Iterator[Fault]:
    form = sent[number].form
    order = f"the seal's is number {number + 1} of {len(sent)}"
    if not place.is_own:
        yield fault("certificate-header", f"it stands in {place.name}, not in {own}")
    if form != expected.value:
        yield fault(
            "certificate-form", f"it is {form}{f' ({order})' if number else ''}, the dialect has {expected.value}"
        )
    elif place.is_own and number:
        yield fault("certificate-order", f"{order} in {place.name}")


def _read_any_form(value: str, expected: CertificateForm) -> list[_Sent]:
    """The certificates in a text, in the form that is expected or in another; one that is none where it holds none."""
    for form in dict.fromkeys((expected, *CertificateForm)):
        with suppress(FormatError):
            return [_Sent(_with_key(read_certificate(value, form)), form.value)]
    for found, form_in_words in _in_other_forms(value) if len(value) <= MAX_CERTIFICATE_HEADER else ():
        sent = [_Sent(_from_der(one), form_in_words) for one in found]
        if any(one.certificate is not None for one in sent):
            return sent
    return [_Sent(None, "")]


def _in_other_forms(value: str) -> Iterator[tuple[Sequence[bytes], str]]:
    with suppress(FormatError):
        found = read_sources(value.encode("latin-1", "replace"), with_pkcs12=False)
        yield [one.der for one in found if one.kind == "certificate"][:MAX_SENT], _form_of(value)
    yield from other_certificates(value)


def _from_der(raw: bytes) -> EidasCertificate | None:
    with suppress(FormatError):
        return _with_key(EidasCertificate.from_der(raw))
    return None


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
