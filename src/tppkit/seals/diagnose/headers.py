"""Repairs of a request's headers: each takes away one refusal of the verifier, and so proves what was wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import NamedTuple

from tppkit._encoding import encode_base64
from tppkit.certificates import EidasCertificate
from tppkit.errors import ConfigurationError, FormatError
from tppkit.httpsig.address import split_address
from tppkit.httpsig.algorithms import key_kind
from tppkit.httpsig.cavage import AUTHORIZATION_SCHEME, CREATED, EXPIRES, MAX_HEADER_LENGTH, parse_signature_header
from tppkit.httpsig.http_date import format_http_date
from tppkit.httpsig.message import Message, is_field_name, message_components
from tppkit.seals.diagnose.certificates import spelling_of
from tppkit.seals.diagnose.mistakes import Finding, finding
from tppkit.seals.diagnose.refusals import UNDATED, Refusal, Verifier
from tppkit.seals.key_id import make_key_id
from tppkit.seals.policy import demands_of
from tppkit.seals.profile import Format, SealProfile

_NO_SIGNATURE = encode_base64(bytes(64))  # for a request that is judged without its signature
# Possessive: what one part took, the next one does not try to take back, so a run of blanks is read once.
_PARAMETER = re.compile(
    r"""[ \t]*+([A-Za-z][A-Za-z0-9_-]{0,31})[ \t]*+=[ \t]*+(?:"([^"]*+)(?:"|$)|'([^']*+)'|([^",;]*+))[ \t]*+(?:[,;]|$)"""
)
_TIDY = re.compile(r"""[ \t]{0,8}[A-Za-z][A-Za-z0-9_-]*=(?:"[^"]*"|[0-9]+),?""")
_NAMES = {name.lower(): name for name in ("keyId", "algorithm", "headers", "signature", "created", "expires")}
_SCHEME = re.compile(r"signature[ \t]+", re.IGNORECASE)


class Rejected(NamedTuple):
    """A request that the verifier rejects.

    Attributes:
        message: the request, as far as it was repaired.
        certificate: its seal certificate.
        candidates: every certificate whose key may have signed it.
        verifier: what it is judged by.
        refused: why it is rejected.
        added: names of headers, and parameters, that an earlier repair is about.
    """

    message: Message
    certificate: EidasCertificate
    candidates: Sequence[EidasCertificate]
    verifier: Verifier
    refused: Refusal
    added: frozenset[str] = frozenset()

    @property
    def profile(self) -> SealProfile:
        """The dialect that it should be in."""
        return self.verifier.profile

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters of its signature header, in whatever form they are."""
        return {one.name: one.text for one in _parameters(_signature_value(self.message, self.profile))}


class Repaired(NamedTuple):
    """A request after a repair, and the mistakes that the repair proves."""

    message: Message
    findings: tuple[Finding, ...] = ()
    added: frozenset[str] = frozenset()


def repair_start_line(message: Message) -> Repaired:
    """A request with the method in capitals, and path and query alone in its start line.

    Source: RFC 9110 section 9.1; RFC 9112 section 3.2.2.
    """
    findings: list[Finding] = []
    if message.method != message.method.upper() and is_field_name(message.method):
        findings.append(finding("method-sent-lower-case", f"it is {message.method[:20]}"))
        message = message._replace(method=message.method.upper())
    if message.target[:8].lower().startswith(("http://", "https://")):
        with suppress(FormatError):
            host, target = split_address(message.target)
            findings.append(finding("target-absolute", f"it names the host {host[:100]} before path and query"))
            message = message._replace(target=target)
    return Repaired(message, tuple(findings))


def with_header(message: Message, name: str, value: str) -> Message:
    """A request with one header of this name, in the place of the first."""
    places = [place for place, header in enumerate(message.headers) if header[0].lower() == name.lower()]
    kept = [header for place, header in enumerate(message.headers) if place not in places]
    place = places[0] if places else len(kept)
    return message._replace(headers=(*kept[:place], (name, value), *kept[place:]))


def signature_text(message: Message, profile: SealProfile) -> str:
    """The signature parameter of draft-cavage as it is written; empty if it cannot be found."""
    parameters = _parameters(_signature_value(message, profile)) if profile.format is Format.CAVAGE else []
    return next((one.text for one in parameters if one.name == "signature"), "")


class _Parameter(NamedTuple):
    name: str
    text: str
    faults: tuple[str, ...]


def _parameters(value: str) -> list[_Parameter]:
    """The parameters of a signature header, read in whatever form they may have; none if a part has no form."""
    found: list[_Parameter] = []
    position = 0
    while position < len(value) <= MAX_HEADER_LENGTH:
        match = _PARAMETER.match(value, position)
        if match is None:
            return []
        name, double, single, bare = match.groups()
        known = _NAMES.get(name.lower(), name)
        faults = [f"{name} instead of {known}"] * (name != known)
        if double is None and known not in ("created", "expires"):
            faults.append(f"{known} is not between double quotes")
        elif not _TIDY.fullmatch(match[0]):
            faults.append(f"a space, a semicolon or a quote too many at {known}")
        text = next(form for form in (double, single, bare, "") if form is not None)
        found.append(_Parameter(known, text.strip(), tuple(faults)))
        position = match.end()
    return found


def _signature_value(message: Message, profile: SealProfile) -> str:
    """What holds the parameters, without the scheme of Authorization."""
    value = next(iter(message.values(profile.carrier)), "").strip(" \t")
    return _SCHEME.sub("", value, count=1) if _SCHEME.match(value) else value


def _with_parameters(sealed: Rejected, **changes: str) -> Message:
    """The request with other parameters in its signature header, each written as the draft has it."""
    parameters = sealed.parameters | changes
    written = [
        f"{name}={text}" if name in ("created", "expires") else f'{name}="{text}"' for name, text in parameters.items()
    ]
    scheme = AUTHORIZATION_SCHEME if sealed.profile.carrier == "Authorization" else ""
    return with_header(sealed.message, sealed.profile.carrier, scheme + ",".join(written))


def _single_header(sealed: Rejected) -> Repaired | None:
    demands = demands_of(sealed.profile)
    doubled = [name for name in message_components(sealed.message)[1] if name in demands.singletons]
    if not doubled:
        return None
    name = doubled[0]
    values = sealed.message.values(name)
    kept = [with_header(sealed.message, name, value) for value in (values[0], values[-1])]
    holds = (one for one in kept if sealed.verifier.refusal(one, sealed.certificate) is None)
    return Repaired(next(holds, kept[0]), (finding("header-doubled", f"{name} appears {len(values)} times"),))


def _missing_header(sealed: Rejected) -> Repaired | None:
    message, profile = sealed.message, sealed.profile
    if not message.values(profile.carrier):
        return _moved_signature(sealed) if profile.format is Format.CAVAGE else None
    if not message.values(profile.digest_field):
        found = (finding("digest-missing", f"no {profile.digest_field} is among its headers"),)
        added = message.with_headers((profile.digest_field, profile.digest_of(message.body)))
        return Repaired(added, found, frozenset({profile.digest_name}))
    return None


def _moved_signature(sealed: Rejected) -> Repaired | None:
    """A signature of draft-cavage from the other header that it may be in, Signature or Authorization."""
    due = sealed.profile.carrier
    for name in ("Signature", "Authorization"):
        for value in sealed.message.values(name):
            value = _SCHEME.sub("", value.strip(" \t"), count=1)
            if name != due and {one.name for one in _parameters(value)} >= {"keyId", "signature"}:
                scheme = AUTHORIZATION_SCHEME if due == "Authorization" else ""
                headers = [header for header in sealed.message.headers if header[0].lower() != name.lower()]
                moved = sealed.message._replace(headers=(*headers, (due, scheme + value)))
                return Repaired(moved, (finding("signature-carrier", f"it is in {name}, the dialect has it in {due}"),))
    return None


def _tidied(sealed: Rejected) -> Repaired | None:
    """The signature header of draft-cavage in its strict form, if all that it lacks is form."""
    value = next(iter(sealed.message.values(sealed.profile.carrier)), "").strip(" \t")
    parameters = _parameters(_signature_value(sealed.message, sealed.profile))
    given = {one.name: one.text for one in parameters}
    if not parameters or len(given) != len(parameters):
        return None
    faults = [fault for one in parameters for fault in one.faults]
    if _SCHEME.match(value) and sealed.profile.carrier != "Authorization":
        faults.insert(0, "it begins with the word Signature, which belongs to Authorization")
    names = re.sub(r"[ ,;|\t]+", " ", given.get("headers", "").lower()).strip()
    if names != given.get("headers", names):
        faults.append(f"headers is {given['headers'][:200]!r}")
    more = {"headers": names} if "headers" in given else {}
    tidy = Repaired(_with_parameters(sealed, **more), (finding("signature-form", "; ".join(faults)),))
    return tidy if faults else None


def _with_missing_parameters(sealed: Rejected) -> Repaired | None:
    """The request with the parameters that the drafts let a sender omit: `headers` stands for the Date then."""
    given = sealed.parameters.keys()
    missing = [name for name in ("algorithm", "headers") if name not in given]
    if not missing or not given >= {"keyId", "signature"}:
        return None
    usual = {"algorithm": _algorithms(sealed)[0], "headers": "date"}
    repaired = _with_parameters(sealed, **{name: usual[name] for name in missing})
    return Repaired(repaired, (finding("parameter-missing", ", ".join(missing)),), frozenset({*missing} & {"headers"}))


def _without_times(sealed: Rejected) -> Repaired | None:
    parameters = sealed.parameters
    names = [name for name in parameters["headers"].split() if name not in (CREATED, EXPIRES)]
    evidence = f"{CREATED} or {EXPIRES} under {parameters['algorithm'][:40]}"
    return Repaired(_with_parameters(sealed, headers=" ".join(names)), (finding("time-not-allowed", evidence),))


def _algorithms(sealed: Rejected) -> tuple[str, ...]:
    """The names that the dialect has for the certificate's key; an empty one if it has none."""
    with suppress(FormatError):
        return tuple(sealed.profile.algorithms_of(key_kind(sealed.certificate.public_key)))
    return ("",)


def _canonical_signature(sealed: Rejected) -> Repaired | None:
    """The request with a signature in canonical base64; how the real one is encoded is found with what it is over."""
    if signature_text(sealed.message, sealed.profile) == _NO_SIGNATURE:
        return None
    return Repaired(_with_parameters(sealed, signature=_NO_SIGNATURE))


def _covered(sealed: Rejected) -> tuple[str, ...]:
    with suppress(FormatError):
        value = _signature_value(sealed.message, sealed.profile)
        return parse_signature_header(value, reading=sealed.profile.reading).headers
    return ()


def _without_absent(sealed: Rejected) -> Repaired | None:
    covered, present = _covered(sealed), {name.lower() for name, _ in sealed.message.headers}
    absent = [name for name in covered if name not in present and not name.startswith("(")]
    if not absent:
        return None
    names = " ".join(name for name in covered if name not in absent)
    found = () if sealed.added.intersection(absent) else (finding("covered-absent", ", ".join(absent)[:200]),)
    return Repaired(_with_parameters(sealed, headers=names), found, frozenset(absent))


def _with_coverage(sealed: Rejected) -> Repaired | None:
    message, demands, covered = sealed.message, demands_of(sealed.profile), _covered(sealed)
    present = {name.lower() for name, _ in message.headers}
    demanded = demands.covered | demands.if_present.intersection(present)
    demanded |= {name for name in present if demands.prefixes and name.startswith(demands.prefixes)}
    missing = sorted(demanded.difference(covered))
    unsent = [name for name in missing if name not in present and not name.startswith("(")]
    uncovered = [name for name in missing if name not in unsent and name not in sealed.added]
    for name in unsent:
        message = message.with_headers(
            (name, format_http_date(sealed.verifier.at or UNDATED) if name == "date" else "-")
        )
    lacking = [name for name in unsent if name not in sealed.added]
    found = [finding("header-not-sent", ", ".join(lacking))] * bool(lacking)
    found += [finding("uncovered", f"{', '.join(uncovered)} (it covers {', '.join(covered)[:200]})")] * bool(uncovered)
    repaired = _with_parameters(sealed._replace(message=message), headers=" ".join((*covered, *missing)))
    return Repaired(repaired, tuple(found), frozenset(unsent))


def _without_others(sealed: Rejected) -> Repaired | None:
    demands, covered = demands_of(sealed.profile), _covered(sealed)
    allowed = demands.allowed or frozenset(covered)
    others = [name for name in covered if name not in allowed and not name.startswith(demands.prefixes)]
    names = " ".join(name for name in covered if name not in others)
    return Repaired(_with_parameters(sealed, headers=names), (finding("covered-too-much", ", ".join(others)[:200]),))


def _with_right_digest(sealed: Rejected) -> Repaired | None:
    repaired = with_header(sealed.message, sealed.profile.digest_field, sealed.profile.digest_of(sealed.message.body))
    return Repaired(repaired, (finding("digest-algorithm", sealed.refused.message),))


def _with_key_id(sealed: Rejected) -> Repaired | None:
    parameters = sealed.parameters
    text, certificate = parameters.get("keyId", ""), sealed.certificate
    spelled = spelling_of(text, certificate)
    other = next((one for one in sealed.candidates if spelling_of(text, one) is not None), None)
    if spelled is not None:
        found = finding("key-id-form", f"it is written {spelled}: {sealed.refused.message}")
    elif other is not None:
        found = finding("key-id-other", f"it names {other.subject}, serial {other.serial:X}")
    else:
        is_form = sealed.refused.code.endswith("malformed")
        found = finding("key-id-form" if is_form else "key-id-other", sealed.refused.message)
    with suppress(ConfigurationError, FormatError):
        return Repaired(_with_parameters(sealed, keyId=make_key_id(certificate, style=sealed.profile.key_id)), (found,))
    return None


def _with_algorithm(sealed: Rejected) -> Repaired | None:
    parameters = sealed.parameters
    names = _algorithms(sealed)
    evidence = f"it is {parameters.get('algorithm', '')[:60]!r}; the dialect has {' or '.join(names)} for this key"
    return Repaired(_with_parameters(sealed, algorithm=names[0]), (finding("algorithm-name", evidence),))


Repair = Callable[[Rejected], Repaired | None]

# By the beginning of the code that the verifier rejects a request with: before its seal can be read, and then. Those of a signature
# header of draft-cavage are apart: for other formats their parsers' findings are reported.
READING: Mapping[str, Repair] = MappingProxyType(
    {"header.duplicate": _single_header, "signature.missing": _missing_header}
)
READING_CAVAGE: Mapping[str, Repair] = MappingProxyType({
    "signature.malformed": _tidied,
    "signature.covered-names": _tidied,
    "signature.missing-parameter": _with_missing_parameters,
    "signature.time-not-allowed": _without_times,
    "base64.": _canonical_signature,
    "signature.header-absent": _without_absent,
    **READING,
})  # fmt: skip
JUDGING: Mapping[str, Repair] = MappingProxyType({"digest.algorithm": _with_right_digest})
JUDGING_CAVAGE: Mapping[str, Repair] = MappingProxyType({
    "signature.uncovered": _with_coverage,
    "signature.other-coverage": _without_others,
    "key-id.": _with_key_id,
    "signature.algorithm": _with_algorithm,
    **JUDGING,
})  # fmt: skip
