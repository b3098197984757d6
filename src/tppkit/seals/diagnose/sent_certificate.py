"""The seal certificate that a request carries, wherever it stands and in whatever form."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from tppkit.certificates import EidasCertificate, read_sources
from tppkit.errors import FormatError
from tppkit.httpsig.message import Message
from tppkit.seals.certificate_header import MAX_CERTIFICATE_HEADER, CertificateForm, read_certificate
from tppkit.seals.diagnose.form import Fault, fault
from tppkit.seals.diagnose.judging import names_certificate
from tppkit.seals.diagnose.jws_form import LooseJws, sent_jws
from tppkit.seals.diagnose.other_certificates import MAX_SENT, other_certificates
from tppkit.seals.profile import SealProfile
from tppkit.seals.profiles import PROFILES

_X5C = "x5c"
_MAX_VALUES = 8  # header values and JSON Web Signatures that are looked into
_MAX_OTHERS = 3  # of those that were sent, whose keys are tried: a QWAC and seals around a renewal
# How a certificate begins that is longer than the longest ECDSA signature: in DER, in base64 on one line, or in PEM.
_BEGINNING = re.compile(
    r"(?<![A-Za-z0-9+/_-])MI[E-L](?:[A-Za-z0-9+/_-] ?){200}|BEGIN(?: |\+|%20)CERTIFICATE|LS0tLS1CRUdJTi"
)


class SentCertificates(NamedTuple):
    """The certificates of a request.

    Attributes:
        seal: the seal's, wherever and in whatever form; None where none is known to be that.
        others: whose keys may have signed as well: none of an authority.
        faults: what is wrong with the seal's.
        notes: what was not looked at.
    """

    seal: EidasCertificate | None = None
    others: tuple[EidasCertificate, ...] = ()
    faults: tuple[Fault, ...] = ()
    notes: tuple[str, ...] = ()


class _Sent(NamedTuple):
    certificate: EidasCertificate | None  # None where it cannot be read
    form: str

    @property
    def end(self) -> EidasCertificate | None:
        """The certificate, where it is none of an authority."""
        return None if self.certificate is None or self.certificate.extensions.is_ca else self.certificate


class _Place(NamedTuple):
    name: str
    is_usual: bool  # some dialect has the seal certificate there
    sent: tuple[_Sent, ...]

    @property
    def is_whole(self) -> bool:
        """Everything that stands there can be read."""
        return all(one.certificate is not None for one in self.sent)


def find_certificates(
    message: Message, *, profile: SealProfile, key_ids: Collection[str] = (), unread: bool = False
) -> SentCertificates:
    """The certificates in a request, wherever and in whatever form, and what is wrong with the seal's.

    In the dialect's place the seal's is the one that the signature names, or else the first that says that it is for seals, or else
    the first; in a place of another dialect too where none is named; and in any other header the one that is named.

    Args:
        message: the request.
        profile: the dialect it should be in; nothing is wrong where that has no place for a certificate.
        key_ids: what the signature may say of its key.
        unread: something that may be a signature could not be read, so an x5c may stand in that.
    """
    own = _X5C if profile.sends_x5c else profile.certificate_header
    signatures = tuple(islice(sent_jws(message, profile), _MAX_VALUES + 1))
    places, left = _places(message, own, profile, signatures)
    number, place = next(_seals(places, own, key_ids), (0, None))
    seal = None if place is None else place.sent[number].certificate
    others = [one for one in dict.fromkeys(_ends(places)) if one != seal]
    faults: list[Fault] = []
    if own is not None and place is not None:
        faults += _unread(places[: places.index(place)])
        faults += _faults_of(place, number, own, _form_in(place.name, profile))
    elif own is not None and not left:
        unread = own == _X5C and (unread or any(one.header is None for one in signatures))
        faults += _unread(places) or ([] if unread or _may_hold_it(places) else [_missing(own)])
    return SentCertificates(seal, tuple(others[:_MAX_OTHERS]), tuple(faults), tuple(_notes(left, len(others))))


def _notes(left: int, others: int) -> Iterator[str]:
    if left:
        yield f"more values may hold certificates than are looked into, which are {_MAX_VALUES}, and {MAX_SENT} in one x5c"
    if others > _MAX_OTHERS:
        yield f"the request carries {others} certificates besides the seal's; the keys of no more than {_MAX_OTHERS} are tried"


def _places(
    message: Message, own: str | None, profile: SealProfile, signatures: Sequence[LooseJws]
) -> tuple[list[_Place], int]:
    """Every place with what may be a certificate, the dialect's first, then those of others; and how much was not looked into."""
    usual = {name.lower(): name for row in (profile, *PROFILES.values()) if (name := row.certificate_header)}
    values: list[tuple[str, list[str]]] = []
    for name, value in message.headers:
        if name.lower() in usual or _BEGINNING.search(value):
            values.append((usual.get(name.lower(), f"the header {name}"), [value]))
    left = 0
    for jws in signatures:
        certificates = (jws.header or {}).get(_X5C, [])
        listed = certificates if isinstance(certificates, list) else [certificates]
        left += max(len(listed) - MAX_SENT, 0)
        if listed:
            values.append((_X5C, [one if isinstance(one, str) else "" for one in listed[:MAX_SENT]]))
    order = [own, *usual.values(), _X5C]
    values.sort(key=lambda value: order.index(value[0]) if value[0] in order else len(order))
    texts: dict[str, list[str]] = {}
    for name, some in values[:_MAX_VALUES]:
        texts.setdefault(name, []).extend(some)
    places = []
    for name, some in texts.items():
        sent = [one for text in some for one in _read_any_form(text, _form_in(name, profile))]
        places.append(_Place(name, name in order, tuple(sent)))
    return places, left + max(len(values) - _MAX_VALUES, len(signatures) - _MAX_VALUES, 0)


def _seals(places: Sequence[_Place], own: str | None, key_ids: Collection[str]) -> Iterator[tuple[int, _Place]]:
    """What may be the seal's, by its number in its place: the likeliest first."""
    of_own, elsewhere = ([one for one in places if (one.name == own) is is_own] for is_own in (True, False))
    for some in (of_own, elsewhere):
        for place in some:
            for number, one in enumerate(place.sent):
                if one.end is not None and any(names_certificate(text, one.end) for text in key_ids):
                    yield number, place
        for place in some:
            if place.is_usual and place.is_whole:
                among = [n for n, one in enumerate(place.sent) if one.end is not None] or [0]
                likeliest = (n for n in among if (end := place.sent[n].end) is not None and "eseal" in end.qc.types)
                yield next(likeliest, among[0]), place


def _ends(places: Sequence[_Place]) -> Iterator[EidasCertificate]:
    yield from (one.end for place in places for one in place.sent if one.end is not None)


def _may_hold_it(places: Sequence[_Place]) -> bool:
    """Something stands there that cannot be read, or that is neither an authority's nor for websites alone."""
    others = [one for one in _ends(places) if "eseal" in one.qc.types or "web" not in one.qc.types]
    return bool(others) or not all(place.is_whole for place in places)


def _missing(own: str) -> Fault:
    return fault(
        "certificate-missing", f"there is {'no x5c in a JSON Web Signature' if own == _X5C else f'no {own} header'}"
    )


def _unread(places: Sequence[_Place]) -> list[Fault]:
    faults = []
    for place in places:
        if place.is_usual and not place.is_whole:
            some = any(one.certificate is not None for one in place.sent)
            told = "a certificate that cannot be read" if some else "no certificate that can be read"
            faults.append(fault("certificate-form", f"{place.name} holds {told}"))
    return faults


def _form_in(name: str, profile: SealProfile) -> CertificateForm:
    return CertificateForm.DER if name == _X5C else profile.certificate_form


def _faults_of(place: _Place, number: int, own: str, expected: CertificateForm) -> Iterator[Fault]:
    form = place.sent[number].form
    order = f"the seal's is number {number + 1} of {len(place.sent)}"
    if place.name != own:
        yield fault("certificate-header", f"it stands in {place.name}, not in {own}")
    if form != expected.value:
        yield fault(
            "certificate-form", f"it is {form}{f' ({order})' if number else ''}, the dialect has {expected.value}"
        )
    elif place.name == own and number:
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
