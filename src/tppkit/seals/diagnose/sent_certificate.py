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
from tppkit.seals.diagnose.jws_form import LooseJws, sent_jws, split_jws
from tppkit.seals.diagnose.other_certificates import MAX_SENT, other_certificates, unwrapped
from tppkit.seals.profile import SealProfile
from tppkit.seals.profiles import PROFILES

_X5C = "x5c"
_OTHER_X5C = "x5c of another JSON Web Signature"
_MAX_VALUES = 8  # header values and JSON Web Signatures that are looked into
_MAX_OTHERS = 3  # of those that were sent, whose keys are tried: a QWAC and seals around a renewal
# How a certificate begins that is longer than the longest ECDSA signature: in DER, in base64 on one line, or in PEM.
_BEGINNING = re.compile(
    r"(?<![A-Za-z0-9+/_-])MI[E-L](?:[A-Za-z0-9+/_-] ?){200}|BEGIN(?: |\+|%20)CERTIFICATE|LS0tLS1CRUdJTi"
)
_SHORTEST = 256  # characters: no certificate has fewer, however it is written


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
    """One value of a header, or x5c of one JSON Web Signature."""

    name: str
    is_usual: bool  # some dialect has the seal certificate there
    sent: tuple[_Sent, ...]

    @property
    def is_whole(self) -> bool:
        """Everything that stands there can be read."""
        return all(one.certificate is not None for one in self.sent)


def find_certificates(
    message: Message, *, profile: SealProfile, key_ids: Collection[str] = (), unread: bool = False, jws: str = ""
) -> SentCertificates:
    """The certificates in a request, wherever and in whatever form, and what is wrong with the seal's.

    In the dialect's place the seal's is the one that the signature names, or else the first that says that it is for seals, or else
    the first; in a place of another dialect so where the dialect's holds nothing; and in any other header the one that is named.

    Args:
        message: the request.
        profile: the dialect it should be in; nothing is wrong where that has no place for a certificate.
        key_ids: what the signature may say of its key.
        unread: something that may be a signature could not be read, so an x5c may stand in that.
        jws: the JSON Web Signature that is judged, where the dialect has one.
    """
    own = _X5C if profile.sends_x5c else profile.certificate_header
    judged = split_jws(jws) if jws else None
    sent = [one for one in islice(sent_jws(message, profile), _MAX_VALUES + 1) if one != judged]
    signatures = sent if judged is None else [judged, *sent]  # the one whose x5c is the dialect's place comes first
    places, left = _places(message, own, profile, signatures)
    number, place = _seal(places, own, key_ids) or (0, None)
    seal = None if place is None else place.sent[number].certificate
    others = [one for one in dict.fromkeys(_ends(places)) if one != seal]
    faults: list[Fault] = []
    if own is not None and place is not None:
        faults += _unread([place] if place.name == own else [one for one in places if one.name == own])
        faults += _faults_of(places, place, number, own, _form_in(place.name, profile))
    elif own is not None and not left:
        unread = own == _X5C and (unread or any(one.header is None for one in signatures))
        nowhere = not (unread or places or _may_hold_it(message, profile))
        faults += [_missing(own)] if nowhere else _unread([one for one in places if one.is_usual])
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
    usual = {name.lower(): name for row in (*PROFILES.values(), profile) if (name := row.certificate_header)}
    values: list[tuple[str, list[str]]] = []
    for name, value in message.headers:
        if name.lower() in usual or _BEGINNING.search(value):
            values.append((usual.get(name.lower(), f"the header {name}"), [value]))
    left = 0
    first = next((one for one in signatures if one.header is not None), None)
    for jws in signatures:
        certificates = (jws.header or {}).get(_X5C, [])
        listed = certificates if isinstance(certificates, list) else [certificates]
        left += max(len(listed) - MAX_SENT, 0)
        if listed:
            texts = [one if isinstance(one, str) else "" for one in listed[:MAX_SENT]]
            values.append((_X5C if jws is first else _OTHER_X5C, texts))
    order = [own, *usual.values(), _X5C]
    values.sort(key=lambda value: order.index(value[0]) if value[0] in order else len(order))
    places = []
    for name, some in values[:_MAX_VALUES]:
        sent = [one for text in some for one in _read_any_form(text, _form_in(name, profile))]
        places.append(_Place(name, name in order, tuple(sent)))
    return places, left + max(len(values) - _MAX_VALUES, len(signatures) - _MAX_VALUES, 0)


def _seal(places: Sequence[_Place], own: str | None, key_ids: Collection[str]) -> tuple[int, _Place] | None:
    """The seal's, by its number in its place: elsewhere than in the dialect's only where that holds none that may be it."""
    here, elsewhere = ([one for one in places if (one.name == own) is is_own] for is_own in (True, False))
    found = _named(here, key_ids)
    if found is None and not any(_ends(here)):
        found = _named(elsewhere, key_ids)
    return found or (_unnamed(places[0]) if places and places[0].is_usual else None)


def _named(places: Sequence[_Place], key_ids: Collection[str]) -> tuple[int, _Place] | None:
    """The one that the signature names. One of an authority only where it stands first: such is a sandbox's, self-signed."""
    found = [
        (number, place)
        for place in places
        for number, one in enumerate(place.sent)
        if (certificate := one.end if number else one.certificate) is not None
        and any(names_certificate(text, certificate) for text in key_ids)
    ]
    return min(found, key=lambda one: one[1].sent[one[0]].end is None, default=None)


def _unnamed(place: _Place) -> tuple[int, _Place] | None:
    """The likeliest; beside something that cannot be read, which may be it, only the first, and not one for websites."""
    ends = {number: one.end for number, one in enumerate(place.sent) if one.end is not None}
    number = next((number for number, end in ends.items() if "eseal" in end.qc.types), next(iter(ends), 0))
    is_likely = number == 0 and 0 in ends and list(ends[0].qc.types) != ["web"]
    return (number, place) if place.is_whole or is_likely else None


def _ends(places: Sequence[_Place]) -> Iterator[EidasCertificate]:
    yield from (one.end for place in places for one in place.sent if one.end is not None)


def _may_hold_it(message: Message, profile: SealProfile) -> bool:
    """Whether a header is long enough for a certificate in some form that is not read, and is for nothing else that is long."""
    others = ("authorization", "signature", "signature-input", profile.carrier.lower())
    return any(len(value) >= _SHORTEST and name.lower() not in others for name, value in message.headers)


def _missing(own: str) -> Fault:
    return fault(
        "certificate-missing", f"there is {'no x5c in a JSON Web Signature' if own == _X5C else f'no {own} header'}"
    )


def _unread(places: Sequence[_Place]) -> Iterator[Fault]:
    for place in places:
        if not place.is_whole:
            some = any(one.certificate is not None for one in place.sent)
            told = "a certificate that cannot be read" if some else "no certificate that can be read"
            yield fault("certificate-form", f"{place.name} holds {told}")


def _form_in(name: str, profile: SealProfile) -> CertificateForm:
    return CertificateForm.DER if name in (_X5C, _OTHER_X5C) else profile.certificate_form


def _faults_of(
    places: Sequence[_Place], place: _Place, number: int, own: str, expected: CertificateForm
) -> Iterator[Fault]:
    form = place.sent[number].form
    before = [len(one.sent) for one in places[: places.index(place)] if one.name == place.name]
    number += sum(before)
    order = f"the seal's is number {number + 1} of {sum(len(one.sent) for one in places if one.name == place.name)}"
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
    for text, wrapped in unwrapped(value) if len(value) <= MAX_CERTIFICATE_HEADER else ():
        found = _read_form(text, expected)
        if found:
            return [one._replace(form=", ".join((one.form, *wrapped))) for one in found]
    return [_Sent(None, "")]


def _read_form(value: str, expected: CertificateForm) -> list[_Sent]:
    for form in dict.fromkeys((expected, *CertificateForm)):
        with suppress(FormatError):
            return [_Sent(_with_key(read_certificate(value, form)), form.value)]
    for found, form_in_words in _in_other_forms(value):
        sent = [_Sent(_from_der(one), form_in_words) for one in found]
        if any(one.certificate is not None for one in sent):
            return sent
    return []


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
