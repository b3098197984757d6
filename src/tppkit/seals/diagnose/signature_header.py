"""The Signature header of draft-cavage, read in any form and rewritten in the strict one."""

from __future__ import annotations

import re

from tppkit._encoding import encode_base64
from tppkit.httpsig.cavage import AUTHORIZATION_SCHEME, CREATED, EXPIRES, MAX_HEADER_LENGTH, TIMELESS
from tppkit.message import Message
from tppkit.seals.diagnose.examination import Examination
from tppkit.seals.profile import SealProfile

_NO_SIGNATURE = encode_base64(bytes(64))
# Possessive: what one part took, the next one does not try to take back, so a run of blanks is read once.
_PARAMETER = re.compile(
    r"""[ \t]*+([A-Za-z][A-Za-z0-9_-]{0,31})[ \t]*+=[ \t]*+(?:"([^"]*+)(?:"|$)|'([^']*+)'|([^",;]*+))[ \t]*+(?:[,;]|$)"""
)
_REQUIRED = ("keyId", "algorithm", "headers", "signature")
_TIMES = ("created", "expires")
_NAMES = {name.lower(): name for name in (*_REQUIRED, *_TIMES)}
_SCHEME = re.compile(r"signature[ \t]+", re.IGNORECASE)


def with_header(message: Message, name: str, value: str) -> Message:
    """A request with one header of this name, in the place of the first."""
    places = [place for place, header in enumerate(message.headers) if header[0].lower() == name.lower()]
    kept = [header for place, header in enumerate(message.headers) if place not in places]
    place = places[0] if places else len(kept)
    return message._replace(headers=(*kept[:place], (name, value), *kept[place:]))


def tidy_signature(examination: Examination) -> str | None:
    """Rewrite a Signature header that the verifier cannot read, with zeros for the signature.

    Returns:
        The signature as it was written; None if there is no certificate, or the parameters cannot be found.
    """
    message, profile = examination.message, examination.profile
    value = next(iter(message.values(profile.carrier)), "").strip(" \t")
    is_authorization = profile.carrier == "Authorization"
    scheme = _SCHEME.match(value)
    parameters, faults = _read_parameters(value[scheme.end() :] if scheme else value, profile)
    is_read = parameters.keys() >= {"keyId", "signature"} and (scheme or not is_authorization)
    if examination.certificate is None or not is_read:
        return None
    if scheme and not is_authorization:
        faults.insert(0, "it begins with the word Signature, which belongs to Authorization")
    missing = [name for name in ("algorithm", "headers") if name not in parameters]
    due = examination.due(examination.certificate)
    usual = {"algorithm": "" if due is None else profile.name_of(due), "headers": "date"}  # as the draft has it
    given = usual | parameters
    names = re.sub(r"[ ,;|\t]+", " ", given["headers"].lower()).strip()
    if names != (given["headers"].lower() if profile.reading.any_case else given["headers"]):
        faults.append(f"headers is {given['headers'][:200]!r}")
    covered = names.split(" ")
    timeless = [one for one in covered if one in (CREATED, EXPIRES) and given["algorithm"].startswith(TIMELESS)]
    kept = " ".join([one for one in covered if one not in timeless])
    if faults:
        examination.find("signature-form", "; ".join(faults))
    if missing:
        examination.find("parameter-missing", ", ".join(missing))
    if timeless:
        examination.find("time-not-allowed", f"{', '.join(timeless)} under {given['algorithm'][:40]}")
    written = [
        f"{name}={text}" if name in _TIMES else f'{name}="{text}"'
        for name, text in {**given, "headers": kept, "signature": _NO_SIGNATURE}.items()
    ]
    strict = f"{AUTHORIZATION_SCHEME if is_authorization else ''}{','.join(written)}"
    examination.message = with_header(message, profile.carrier, strict)
    return given["signature"]


def _read_parameters(value: str, profile: SealProfile) -> tuple[dict[str, str], list[str]]:
    """The parameters of a header in any form, and what is wrong with the form; none if a part has no form."""
    found: dict[str, str] = {}
    faults: list[str] = []
    position = 0
    while position < len(value) <= MAX_HEADER_LENGTH:
        match = _PARAMETER.match(value, position)
        name, double, single, bare = match.groups() if match else ("", None, None, None)
        known = _NAMES.get(name.lower(), name)
        if match is None or known in found:
            return {}, []
        text = double if double is not None else single if single is not None else (bare or "").strip(" \t")
        strict = [f'{known}="{text}"'] * (known not in _TIMES)
        if known not in _REQUIRED or (known == "signature" and profile.reading.bare_signature):
            strict.append(f"{known}={text}")
        position = match.end()
        written = match[0].lstrip(" \t")
        if (written if position == len(value) else written.removesuffix(",")) not in strict:
            faults.append(f"{known} is written {match[0][:60]!r}")
        found[known] = text
    return found, faults
