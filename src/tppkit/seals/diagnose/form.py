"""The signature as it stands in the request, read in whatever way it may have been meant; what is wrong with its form."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tppkit._encoding import encode_base64
from tppkit.errors import FormatError
from tppkit.httpsig.cavage import (
    CREATED,
    EXPIRES,
    MAX_HEADER_LENGTH,
    TIMELESS,
    SignatureParameters,
    parse_signature_header,
    time_components,
)  # fmt: skip
from tppkit.httpsig.message import REQUEST_TARGET, Message
from tppkit.seals.diagnose.mistake import Mistake, Part, by_name
from tppkit.seals.profile import SealProfile

# Possessive: what one part took, the next one does not try to take back, so a run of blanks is read once.
_PARAMETER = re.compile(
    r"""[ \t]*+([A-Za-z][A-Za-z0-9_-]{0,31})[ \t]*+=[ \t]*+(?:"([^"]*+)(?:"|$)|'([^']*+)'|([^",;]*+))[ \t]*+(?:[,;]|$)"""
)
_TIDY = re.compile(r"""[ \t]{0,8}[A-Za-z][A-Za-z0-9_-]*=(?:"[^"]*"|'[^']*'|[^\s,;"]*),?""")
_NAMES = {name.lower(): name for name in ("keyId", "algorithm", "headers", "signature", "created", "expires")}

FORM_MISTAKES: tuple[Mistake, ...] = tuple(
    Mistake(name, Part.FORM, cause, mend)
    for name, cause, mend in (
        ("signature-missing", "No header of the request holds a signature.",
         "Send the signature in the header that the bank's dialect has for it."),
        ("signature-carrier", "The signature stands in another header than the dialect has for it.",
         "Send it in the header that the dialect names."),
        ("signature-format", "The signature is in another format than the dialect has.",
         "Seal in the dialect of the bank that is called (--profile)."),
        ("signature-twice", "The request has more than one header with a signature.",
         "Send one; look for a client that adds it on every retry."),
        ("scheme-word", "The Signature header begins with the word Signature, which belongs to Authorization only.",
         'Begin the Signature header with keyId="…".'),
        ("parameter-twice", "A parameter of the signature stands twice.",
         "Give each parameter once; readers disagree on which one counts."),
        ("parameter-case", "A parameter of the signature is spelled in other letters.", "Spell it keyId, algorithm, headers, signature."),
        ("parameter-unclosed", "The quote behind the last parameter of the signature is missing.", "Write each value between two quotes."),
        ("parameter-unquoted", "A parameter of the signature stands without quotes.",
         "Put quotes around every value but those of created and expires."),
        ("parameter-single-quotes", "Values of the signature's parameters stand between single quotes.", 'Use double quotes: ".'),
        ("parameter-spaces", "White space, a semicolon or a further comma stands between the signature's parameters.",
         "Separate parameters by one comma, with nothing around the equals sign."),
        ("time-quoted", "created or expires stands between quotes.", "Write them as bare numbers."),
        ("time-not-allowed", "The signature covers (created) or (expires), which its algorithm must not.",
         "Cover the fields that the dialect names, with an algorithm that it has."),
        ("parameter-missing", "The signature lacks a parameter.", "Give keyId, algorithm, headers and signature."),
        ("headers-case", "The headers parameter has names with capital letters.", "Write the names in lower case."),
        ("headers-separator", "The names in the headers parameter are not separated by one space.", "Separate them by single spaces."),
        ("headers-twice", "The headers parameter has a name twice.", "Name each header once; its values are joined in one line."),
        ("signature-form", "The signature's header is not in the form of the draft.",
         'Write keyId="…",algorithm="…",headers="…",signature="…".'),
        ("header-doubled", "A header that must stand once stands more than once.", "Send it once; look for a gateway that adds its own."),
        ("covered-absent", "The signature names a header that did not arrive with the request.",
         "Look for what drops it on the way (proxies drop empty and unknown headers), or do not cover it."),
        ("request-id-missing", "The request lacks the header that names it, which the dialect demands.",
         "Send a new UUID in that header with every new request, and cover it."),
        ("header-not-sent", "The request lacks a header that the dialect demands to be covered.", "Send it, and cover it."),
        ("method-sent-lower-case", "The method was sent in lower case; methods are case-sensitive, and servers know them in capitals.",
         "Send the method in capitals; in (request-target) alone it stands in lower case."),
        ("target-absolute", "The start line has the whole address (the absolute form, which is for proxies) and not path and query alone.",
         "Send path and query in the start line, or verify against them: scheme and host are not part of what is signed."),
        ("digest-missing", "The request has no Digest header.",
         "Send Digest, of zero bytes where there is no body, unless the dialect says otherwise."),
        ("certificate-missing", "The request does not carry the seal certificate.",
         "Send it where the dialect has it: in its header, or in x5c of the signature."),
        ("certificate-form", "The seal certificate is written in another form than the dialect has.",
         "Write it in the dialect's form: base64 of DER on one line for most banks."),
        ("certificate-order", "The seal certificate does not stand first among those that were sent.",
         "Put the seal's first, then that of its authority, and so on."),
        ("certificate-header", "The seal certificate stands in another place than the dialect has for it.",
         "Send it where the dialect has it: in its header, or in x5c of the signature."),
    )
)  # fmt: skip
_ROWS = by_name(FORM_MISTAKES)


class Fault(NamedTuple):
    """A mistake that was seen, with what was seen.

    Attributes:
        mistake: the row.
        detail: the values.
    """

    mistake: Mistake
    detail: str = ""


class Form(NamedTuple):
    """A signature as read.

    Attributes:
        readings: what its parameters may say, the likeliest first; none when they cannot be read.
        text: of the signature parameter, as written.
        faults: what is wrong with the form.
        prefixes: of a JSON Web Signature, for each reading what stands before the lines: its protected header and a point.
        payload: of a JSON Web Signature that carries one, as written.
        part: of a JSON Web Signature of which one part alone arrived, that part; empty where anything else may be a signature.
        unread: headers with what may be a signature and cannot be read; where one was read, only those that may hold a JSON Web
            Signature, since that may have a certificate.
        jws: the JSON Web Signature that was read, as written; empty where the dialect is of another format.
    """

    readings: tuple[SignatureParameters, ...] = ()
    text: str = ""
    faults: tuple[Fault, ...] = ()
    prefixes: tuple[str, ...] = ()
    payload: str = ""
    part: str = ""
    unread: tuple[str, ...] = ()
    jws: str = ""


def read_form(value: str, *, profile: SealProfile) -> Form:
    """Read the parameters of a signature, leniently, and say what is wrong with their form.

    Args:
        value: what holds them, without the scheme of Authorization.
        profile: the dialect it should be in.
    """
    try:
        strict = parse_signature_header(value, reading=profile.reading)
    except FormatError as e:
        return Form(*_read_leniently(value, e))
    return Form((strict,), encode_base64(strict.signature))  # read strictly, so this is how it is written


def fault(name: str, detail: str = "") -> Fault:
    """A fault of the form by its row's name."""
    return Fault(_ROWS[name], detail)


def _read_leniently(value: str, strict: FormatError) -> tuple[tuple[SignatureParameters, ...], str, tuple[Fault, ...]]:
    given: list[tuple[str, str]] = []
    faults: dict[str, str] = {}
    position = 0
    while position < len(value[:MAX_HEADER_LENGTH]):
        match = _PARAMETER.match(value, position)
        if match is None or match.end() == position:
            break
        name, double, single, bare = match.groups()
        given.append((name, next(text for text in (double, single, bare, "") if text is not None)))
        faults |= _faults_of(match[0], name, double, single, bare)
        position = match.end()
    readings = tuple(_readings(given, faults)) if given else ()
    if not faults and not _is_told_elsewhere(strict):
        faults["signature-form"] = strict.message
    texts = [text for name, text in given if name.lower() == "signature"]
    return readings, texts[-1].strip() if texts else "", tuple(fault(name, detail) for name, detail in faults.items())


def _is_told_elsewhere(strict: FormatError) -> bool:
    """The form is right but for how the signature is encoded, or a time that is covered, which are looked at by themselves."""
    return strict.code.startswith("base64.") or strict.code == "signature.time-not-allowed"


def time_faults(parameters: SignatureParameters) -> Iterator[Fault]:
    """A time is covered under an algorithm that has none."""
    covered = [name for name in (CREATED, EXPIRES) if name in parameters.headers]
    if covered and parameters.algorithm.startswith(TIMELESS):
        yield fault("time-not-allowed", f"{' and '.join(covered)} under {parameters.algorithm}")


def _faults_of(text: str, name: str, double: str | None, single: str | None, bare: str | None) -> dict[str, str]:
    faults = {}
    known = _NAMES.get(name.lower())
    if known is not None and known != name:
        faults["parameter-case"] = f"{name} instead of {known}"
    if single is not None:
        faults["parameter-single-quotes"] = name
    if known in ("created", "expires"):
        if double is not None:
            faults["time-quoted"] = name
    elif bare is not None:
        faults["parameter-unquoted"] = name
    if double is not None and text.count('"') == 1:
        return faults | {"parameter-unclosed": name}
    if not _TIDY.fullmatch(text):
        faults["parameter-spaces"] = name
    return faults


def _readings(given: list[tuple[str, str]], faults: dict[str, str]) -> list[SignatureParameters]:
    """What the parameters may say: the last of two, then the first; covered names read in any form."""
    last: dict[str, str] = {}
    first: dict[str, str] = {}
    for name, text in given:
        known = _NAMES.get(name.lower(), name)
        if known in last:
            faults["parameter-twice"] = known
        last[known] = text
        first.setdefault(known, text)
    missing = [name for name in ("keyId", "algorithm", "headers", "signature") if name not in last]
    if missing:
        faults["parameter-missing"] = ", ".join(missing)
    if "signature" in missing:
        return []
    both = (last,) if first == last else (last, first)
    return [_parameters(one, names) for one in both for names in _covered(one, faults)]


def _covered(given: Mapping[str, str], faults: dict[str, str]) -> tuple[tuple[str, ...], ...]:
    text = given.get("headers")
    if text is None:
        return (
            ("date",),
            (CREATED,),
            ("digest", "x-request-id", REQUEST_TARGET),
            ("digest", "x-request-id"),
            (REQUEST_TARGET, "date", "digest"),
        )
    names = tuple(name for name in re.split(r"[ ,;|\t]+", text.lower()) if name)
    if text != text.lower():
        faults["headers-case"] = text[:200]
    if " ".join(names) != text.lower():
        faults["headers-separator"] = text[:200]
    if len(set(names)) != len(names):
        faults["headers-twice"] = text[:200]
        return (names, tuple(dict.fromkeys(names)))
    return (names,)


def _parameters(given: Mapping[str, str], names: tuple[str, ...]) -> SignatureParameters:
    times = [
        int(text) if (text := given.get(name, "")).isascii() and text.isdigit() and len(text) < 20 else None
        for name in ("created", "expires")
    ]
    return SignatureParameters(given.get("keyId", ""), given.get("algorithm", ""), names, b"", *times)


def components_of(message: Message, parameters: SignatureParameters) -> dict[str, str]:
    """Every component by lower-case name; unlike a verifier's, of any method and target."""
    values = {REQUEST_TARGET: f"{message.method.lower()} {message.target}"}
    for name, value in message.headers:
        name, value = name.lower(), value.strip(" \t")
        values[name] = f"{values[name]}, {value}" if name in values else value
    return values | dict(time_components(parameters))
