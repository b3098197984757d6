"""The signature of a request, wherever it stands and in whatever format, read by the lenient reader of that format."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tppkit.httpsig.message import Message
from tppkit.seals.diagnose.form import Fault, Form, fault, read_form
from tppkit.seals.diagnose.jws_form import (
    find_jws,
    jws_carriers,
    read_jws_form,
    speaks_of_signature,
    split_jws,
)
from tppkit.seals.diagnose.likeness import may_be_signature
from tppkit.seals.profile import Format, SealProfile


def _both(before: str, after: str) -> str:
    """A pattern of what a signature of draft-cavage cannot be without: these two names, with this before and behind them."""
    return "".join([f"(?=.*?{before}{name}{after})" for name in ("keyid", "signature")])


# A member of the dictionary that RFC 9421 has in Signature: label=:base64:
_IN_COLONS = re.compile(r"[ \t]*[A-Za-z*][A-Za-z0-9_.*-]*[ \t]*=[ \t]*:")
_SCHEME = re.compile(r"(signature)[ \t]+", re.IGNORECASE)
# A signature of draft-cavage: anyhow, in a header that is for signatures; in its whole form in one that is for anything, since
# addresses and cookies have parameters of the same names.
_ANYHOW = re.compile(_both(r"(?<![a-z])", r"[ \t]*="), re.IGNORECASE | re.DOTALL)
_WHOLE = re.compile(
    _both(r"(?<![^\s,;])", '="') + r"[ \t]*+(?:signature[ \t]++)?[a-z][a-z0-9_-]*+=", re.IGNORECASE | re.DOTALL
)
_USUAL = ("signature", "authorization")


class _Standing(NamedTuple):
    format: Format | None  # None where it may be a signature, of no format that is known
    carrier: str
    value: str
    is_read: bool = True  # it has what its format cannot be without


def read_signature(message: Message, *, profile: SealProfile) -> Form:
    """Read the signature of a request, leniently, and say what is wrong with its form.

    That of RFC 9421 is read by the verifier alone, so of one that is there nothing is said here.

    Args:
        message: the request.
        profile: the dialect it should be in.
    """
    everything = tuple(_standing(message, profile))
    found = [one for one in everything if one.format is profile.format]
    form = _read(found, message, profile) if found else Form(faults=tuple(_absence(everything, profile)))
    unread = [
        one for one in everything if not one.is_read and (".." in one.value if form.readings else one.value.strip())
    ]
    names = tuple(dict.fromkeys(one.carrier for one in unread))
    return form._replace(part=form.part if len(everything) == 1 else "", unread=names)


def _read(found: Sequence[_Standing], message: Message, profile: SealProfile) -> Form:
    if profile.format is Format.RFC9421:
        return Form()
    value, faults = _choose(found, profile)
    if profile.format is Format.CAVAGE:
        read = read_form(value, profile=profile)
    else:
        read = read_jws_form(value, message, profile)._replace(jws=value)
    return read._replace(faults=(*faults, *read.faults))


def _standing(message: Message, profile: SealProfile) -> Iterator[_Standing]:
    """Every header that holds, or may hold, a signature: in the format that its content has."""
    has_input = bool(message.values("signature-input"))
    carriers, own = jws_carriers(profile), profile.carrier.lower()
    for name, value in message.headers:
        lower, by_name = name.lower(), speaks_of_signature(name)
        if (_ANYHOW if by_name or lower in (*_USUAL, own) else _WHOLE).match(value):
            yield _Standing(Format.CAVAGE, name, value)
        elif (jws := find_jws(name, value)) is not None:
            sent = value if lower in carriers else jws
            yield _Standing(Format.JWS, name, sent, is_read=split_jws(sent).header is not None)
        elif lower == "signature" and (has_input or _IN_COLONS.match(value)):
            yield _Standing(Format.RFC9421, name, value)
        elif lower == "authorization" and _SCHEME.match(value):
            yield _Standing(Format.CAVAGE, name, value, is_read=False)
        elif lower == own and lower != "authorization":
            is_read = profile.format is Format.JWS and split_jws(value).header is not None
            yield _Standing(profile.format, name, value, is_read)
        elif (by_name and value.strip(" \t")) or may_be_signature(name, value, profile):
            yield _Standing(None, name, value, is_read=False)


def _absence(others: tuple[_Standing, ...], profile: SealProfile) -> Iterator[Fault]:
    """What is wrong where no signature of the dialect's format stands; nothing is said of one in no known format."""
    if not others:
        yield fault("signature-missing", f"no value looks like one; the dialect has it in {profile.carrier}")
    told = dict.fromkeys(f"{one.carrier} is of the format {one.format.value}" for one in others if one.format)
    if told:
        due = f"the dialect has {profile.format.value} in {profile.carrier}"
        yield fault("signature-format", f"{', '.join(told)}; {due}")


def _choose(found: Sequence[_Standing], profile: SealProfile) -> tuple[str, tuple[Fault, ...]]:
    """The value that holds the signature, without the scheme of Authorization: the first that can be read.

    In the dialect's carrier, or where it usually is, or elsewhere.
    """
    faults: list[Fault] = []
    right = [one for one in found if one.carrier.lower() == profile.carrier.lower()]
    usual = [one for one in found if one.carrier.lower() in _USUAL]
    chosen = min((*right, *usual, *found), key=lambda one: not one.is_read)
    carrier, value = chosen.carrier, chosen.value
    if len(right) > 1:
        faults.append(fault("signature-twice", f"{len(right)} of them"))
    if chosen not in right:
        faults.append(fault("signature-carrier", f"it stands in {carrier}, the dialect has it in {profile.carrier}"))
    scheme = _SCHEME.match(value)
    if scheme is not None:
        if carrier.lower() == "signature":
            faults.append(fault("scheme-word", f"its value begins with {scheme[1]}"))
        value = value[scheme.end() :].strip(" \t")
    return value, tuple(faults)
