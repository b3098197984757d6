"""The signature of a request, wherever it stands and in whatever format, read by the lenient reader of that format."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from tppkit.httpsig.message import Message
from tppkit.seals.diagnose.form import Fault, Form, fault, read_form
from tppkit.seals.diagnose.jws_form import find_jws, jws_carriers, read_jws_form, speaks_of_signature
from tppkit.seals.profile import Format, SealProfile

# A member of the dictionary that RFC 9421 has in Signature: label=:base64:
_IN_COLONS = re.compile(r"[ \t]*[A-Za-z*][A-Za-z0-9_.*-]*[ \t]*=[ \t]*:")
# What a signature of draft-cavage cannot be without, and the word before it in Authorization.
_KEY_ID, _SIGNATURE = (re.compile(rf"(?<![a-z]){name}[ \t]*=", re.IGNORECASE) for name in ("keyid", "signature"))
_SCHEME = re.compile(r"(signature)[ \t]+", re.IGNORECASE)
# The whole form: of a header that is for anything, since addresses and cookies have parameters of the same names.
_BEGINNING = re.compile(r"[ \t]*(?:signature[ \t]+)?[a-z]+=\"", re.IGNORECASE)
_QUOTED = tuple(re.compile(rf"(?<![a-z]){name}=\"", re.IGNORECASE) for name in ("keyid", "signature"))
_USUAL = ("signature", "authorization")


class _Standing(NamedTuple):
    format: Format | None  # None where it may be a signature, of no format that is known
    carrier: str
    value: str


def read_signature(message: Message, *, profile: SealProfile) -> Form:
    """Read the signature of a request, leniently, and say what is wrong with its form.

    That of RFC 9421 is read by the verifier alone, so of one that is there nothing is said here.

    Args:
        message: the request.
        profile: the dialect it should be in.
    """
    everything = tuple(_standing(message, profile))
    found = [one for one in everything if one.format is profile.format]
    if not found:
        return Form(faults=tuple(_absence(everything, profile)))
    if profile.format is Format.RFC9421:
        return Form()
    value, faults = _choose(found, profile)
    read = (
        read_form(value, profile=profile) if profile.format is Format.CAVAGE else read_jws_form(value, message, profile)
    )
    return read._replace(faults=(*faults, *read.faults))


def _standing(message: Message, profile: SealProfile) -> Iterator[_Standing]:
    """Every header that holds, or may hold, a signature: in the format that its content has."""
    has_input = bool(message.values("signature-input"))
    carriers, own = jws_carriers(profile), profile.carrier.lower()
    for name, value in message.headers:
        lower = name.lower()
        if lower == "signature-input":
            continue
        if _is_of_the_draft(value, may_be_other=lower not in (*_USUAL, own) and not speaks_of_signature(name)):
            yield _Standing(Format.CAVAGE, name, value)
        elif (jws := find_jws(name, value)) is not None:
            yield _Standing(Format.JWS, name, value if lower in carriers else jws)
        elif lower == "signature" and (has_input or _IN_COLONS.match(value)):
            yield _Standing(Format.RFC9421, name, value)
        elif lower == "authorization":
            if _SCHEME.match(value):
                yield _Standing(Format.CAVAGE, name, value)
        elif lower == own:
            yield _Standing(profile.format, name, value)
        elif value.strip(" \t") and speaks_of_signature(name):
            yield _Standing(None, name, value)


def _is_of_the_draft(value: str, *, may_be_other: bool) -> bool:
    """Whether a value has what a signature of draft-cavage cannot be without: written as it should be, where it may be other."""
    if may_be_other:
        return _BEGINNING.match(value) is not None and all(one.search(value) for one in _QUOTED)
    return _KEY_ID.search(value) is not None and _SIGNATURE.search(value) is not None


def _absence(others: tuple[_Standing, ...], profile: SealProfile) -> Iterator[Fault]:
    """What is wrong where no signature of the dialect's format stands; nothing is said of one in no known format."""
    if not others:
        yield fault("signature-missing", f"the dialect has it in {profile.carrier}")
    told = dict.fromkeys(f"{one.carrier} is of the format {one.format.value}" for one in others if one.format)
    if told:
        due = f"the dialect has {profile.format.value} in {profile.carrier}"
        yield fault("signature-format", f"{', '.join(told)}; {due}")


def _choose(found: list[_Standing], profile: SealProfile) -> tuple[str, tuple[Fault, ...]]:
    """The value that holds the signature, without the scheme of Authorization: in the dialect's carrier, or where it usually is."""
    faults: list[Fault] = []
    right = [one for one in found if one.carrier.lower() == profile.carrier.lower()]
    usual = [one for one in found if one.carrier.lower() in _USUAL]
    _, carrier, value = (right or usual or found)[0]
    if len(right) > 1:
        faults.append(fault("signature-twice", f"{len(right)} of them"))
    if not right:
        faults.append(fault("signature-carrier", f"it stands in {carrier}, the dialect has it in {profile.carrier}"))
    scheme = _SCHEME.match(value)
    if scheme is not None:
        if carrier.lower() == "signature":
            faults.append(fault("scheme-word", f"its value begins with {scheme[1]}"))
        value = value[scheme.end() :].strip(" \t")
    return value, tuple(faults)
