"""The signature of a request, wherever it stands and in whatever format, read by the lenient reader of that format."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from tppkit.httpsig.message import Message
from tppkit.seals.diagnose.form import Fault, Form, fault, read_form
from tppkit.seals.diagnose.jws_form import jws_carriers, read_jws_form
from tppkit.seals.profile import Format, SealProfile

# A member of the dictionary that RFC 9421 has in Signature: label=:base64:
_IN_COLONS = re.compile(r"[ \t]*[a-z*][a-z0-9_.*-]*=:")


class _Standing(NamedTuple):
    format: Format
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
        return Form(faults=(_absence(everything, profile),))
    if profile.format is Format.RFC9421:
        return Form()
    value, faults = _choose(found, profile)
    read = (
        read_form(value, profile=profile) if profile.format is Format.CAVAGE else read_jws_form(value, message, profile)
    )
    return read._replace(faults=(*faults, *read.faults))


def _standing(message: Message, profile: SealProfile) -> Iterator[_Standing]:
    """Every header that holds a signature, by its format."""
    for name in jws_carriers(profile):
        yield from (_Standing(Format.JWS, name, value) for value in message.values(name))
    for value in message.values("signature"):
        yield _Standing(Format.RFC9421 if _IN_COLONS.match(value) else Format.CAVAGE, "Signature", value)
    for value in message.values("authorization"):
        if value[:10].lower() == "signature ":
            yield _Standing(Format.CAVAGE, "Authorization", value)


def _absence(others: tuple[_Standing, ...], profile: SealProfile) -> Fault:
    if not others:
        return fault("signature-missing", f"the dialect has it in {profile.carrier}")
    told = dict.fromkeys(f"{one.carrier} is of the format {one.format.value}" for one in others)
    return fault("signature-format", f"{', '.join(told)}; the dialect has {profile.format.value} in {profile.carrier}")


def _choose(found: list[_Standing], profile: SealProfile) -> tuple[str, tuple[Fault, ...]]:
    """The value that holds the signature, without the scheme of Authorization."""
    faults: list[Fault] = []
    right = [one for one in found if one.carrier.lower() == profile.carrier.lower()]
    _, carrier, value = (right or found)[0]
    if len(right) > 1:
        faults.append(fault("signature-twice", f"{len(found)} of them"))
    if not right:
        faults.append(fault("signature-carrier", f"it stands in {carrier}, the dialect has it in {profile.carrier}"))
    scheme, _, rest = value.partition(" ")
    if scheme.lower() == "signature":
        if carrier == "Signature":
            faults.append(fault("scheme-word", f"its value begins with {scheme}"))
        value = rest.strip(" \t")
    return value, tuple(faults)
