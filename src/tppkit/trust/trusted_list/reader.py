"""Reader of trusted lists: XML into values.

The frame of a list must be well formed. A part of its content that cannot be read becomes a finding and does not hide the rest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tppkit._clock import format_time, parse_time
from tppkit._encoding import decode_base64, shown
from tppkit.certificates import EidasCertificate
from tppkit.errors import Finding, FormatError, Severity, VerificationError
from tppkit.trust.trusted_list.model import DigitalIdentity, Pointer, Provider, Service, ServiceInstance, TrustedList
from tppkit.trust.trusted_list.qualifications import read_qualifications
from tppkit.trust.trusted_list.uris import ADDITIONAL_TYPES, QUALIFICATIONS, QUALIFIED_CA, TSL
from tppkit.trust.trusted_list.xml_document import Element, Pace, no_rest, parse_xml
from tppkit.trust.trusted_list.xml_signature import verify_and_remove_signature

MAX_FINDINGS = 100
# Six months have 184 days at most; operators round up.
MAX_GOOD_FOR = timedelta(days=190)
_ROOT = f"{TSL}TrustServiceStatusList"
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_INFORMATION = f"{TSL}AdditionalServiceInformation"
_QUALIFICATIONS = f"{QUALIFICATIONS}Qualifications"
_TAKEN_OVER = f"{ADDITIONAL_TYPES}TakenOverBy"
# The last one does not affect whether a certificate is qualified.
_KNOWN_EXTENSIONS = frozenset({_INFORMATION, _QUALIFICATIONS, _TAKEN_OVER, f"{TSL}ExpiredCertsRevocationInfo"})


class UnverifiedList:
    """A list whose signature is not verified yet: it offers only its claims about which list it is."""

    def __init__(self, data: bytes, *, source: str, pace: Pace = no_rest) -> None:
        """Read the XML.

        Args:
            data: the list.
            source: its file or address, for messages.
            pace: called between pieces of work, also of `verify`.

        Raises:
            FormatError: `trusted-list.malformed`, `trusted-list.too-large`.
            ConfigurationError: `extra.missing`.
        """
        self.source = source
        self.sha256 = hashlib.sha256(data).hexdigest()
        self._data = data
        self._pace = pace
        self._root = parse_xml(data, what=source, pace=pace)
        reading = _Reading(source, pace)
        scheme = _only(reading, self._root, "SchemeInformation") if self._root.tag == _ROOT else None
        if scheme is None:
            raise reading.malformed("it has no scheme information")
        self.claimed_type = _text(reading, scheme, "TSLType")
        self.claimed_territory = _text(reading, scheme, "SchemeTerritory")
        self.claimed_sequence_number = _number(reading, _text(reading, scheme, "TSLSequenceNumber"))
        uris = (_stripped(uri) for uri in scheme.findall(f"{TSL}SchemeInformationURI/{TSL}URI"))
        self.claimed_pivots = tuple(uri for uri in uris if uri.endswith(".xml"))

    def verify(self, *, signers: Collection[str]) -> TrustedList:
        """Verify the signature and read the list; possible only once.

        Args:
            signers: SHA-256 (lower-case hexadecimal) of the certificates that may sign it.

        Raises:
            FormatError: `trusted-list.malformed`.
            VerificationError: `trusted-list.unsigned`, `trusted-list.signature-form`, `trusted-list.signer`,
                `trusted-list.signature`, `trusted-list.next-update`.

        Source: ETSI TS 119 612 annex B and clauses 5.3.15 and 5.7.
        """
        signer = verify_and_remove_signature(self._root, signers=signers, what=self.source)
        verified = _read_list(self._root, self._data, _Reading(self.source, self._pace), signer)
        if verified.next_update is not None and verified.next_update - verified.issued > MAX_GOOD_FOR:
            raise VerificationError(
                "trusted-list.next-update",
                f"{verified} was issued on {format_time(verified.issued)} and would be in force until"
                f" {format_time(verified.next_update)}, for more than six months",
                clause="TS 119 612 clause 5.3.15",
            )
        return verified


@dataclass(slots=True)
class _Reading:
    """The state of reading one list."""

    source: str
    pace: Pace = no_rest
    findings: list[Finding] = field(default_factory=list)

    def note(self, message: str) -> None:
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(
                Finding("trusted-list.unreadable-part", Severity.WARNING, f"{self.source}: {message}", "TS 119 612")
            )

    def malformed(self, message: str) -> FormatError:
        return FormatError(
            "trusted-list.malformed", f"{self.source} is not a trusted list: {message}", clause="TS 119 612 clause 5.3"
        )


def _read_list(root: Element, data: bytes, reading: _Reading, signer: EidasCertificate) -> TrustedList:
    scheme = root.find(f"{TSL}SchemeInformation")
    next_update = _text(reading, scheme, "NextUpdate/{tsl}dateTime")
    return TrustedList(
        type=_text(reading, scheme, "TSLType"),
        territory=_text(reading, scheme, "SchemeTerritory"),
        operators=_names(scheme.find(f"{TSL}SchemeOperatorName")),
        sequence_number=_number(reading, _text(reading, scheme, "TSLSequenceNumber")),
        issued=_frame_time(reading, _text(reading, scheme, "ListIssueDateTime"), "time of issue"),
        next_update=_frame_time(reading, next_update, "next update") if next_update else None,
        pointers=tuple(_pointers(reading, scheme)),
        providers=tuple(_providers(reading, root)),
        sha256=hashlib.sha256(data).hexdigest(),
        source=reading.source,
        signer=signer,
        findings=tuple(reading.findings),
        xml=data,
    )


def _stripped(element: Element | None) -> str:
    return "" if element is None else (element.text or "").strip()


def _only(reading: _Reading, parent: Element, path: str) -> Element | None:
    """The element of a path that may occur once, or None."""
    found = parent.findall(f"{TSL}{path.format(tsl=TSL)}")
    if len(found) > 1:
        raise reading.malformed(f"it has {len(found)} elements {path.format(tsl='')} in one place")
    return found[0] if found else None


def _text(reading: _Reading, parent: Element, path: str) -> str:
    element = _only(reading, parent, path)
    if element is not None and len(element):
        raise reading.malformed(f"its {path.format(tsl='')} has elements inside its text")
    return _stripped(element)


def _number(reading: _Reading, text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise reading.malformed(f"its sequence number is {shown(text)}")
    return int(text)


def _frame_time(reading: _Reading, text: str, what: str) -> datetime:
    try:
        return parse_time(text)
    except FormatError as e:
        raise reading.malformed(f"its {what} is {shown(text)}") from e


def _names(element: Element | None) -> tuple[str, ...]:
    if element is None:
        return ()
    named = [(name.get(_LANGUAGE) or "", " ".join((name.text or "").split())) for name in element.findall(f"{TSL}Name")]
    named.sort(key=lambda pair: not pair[0].lower().startswith("en"))
    return tuple(dict.fromkeys(text for _, text in named if text))


def _pointers(reading: _Reading, scheme: Element) -> Iterator[Pointer]:
    for element in scheme.findall(f"{TSL}PointersToOtherTSL/{TSL}OtherTSLPointer"):
        reading.pace()
        facts: dict[str, Element] = {}
        for part in element.findall(f"{TSL}AdditionalInformation/{TSL}OtherInformation"):
            facts.update({child.tag: child for child in part if isinstance(child.tag, str)})
        signers = (
            hashlib.sha256(data).hexdigest()
            for identity in element.findall(f"{TSL}ServiceDigitalIdentities/{TSL}ServiceDigitalIdentity")
            for data in _certificates(reading, identity)
        )
        yield Pointer(
            location=_text(reading, element, "TSLLocation"),
            territory=_stripped(facts.get(f"{TSL}SchemeTerritory")),
            type=_stripped(facts.get(f"{TSL}TSLType")),
            media_type=_stripped(facts.get(f"{ADDITIONAL_TYPES}MimeType")),
            operators=_names(facts.get(f"{TSL}SchemeOperatorName")),
            signers=frozenset(signers),
        )


def _providers(reading: _Reading, root: Element) -> Iterator[Provider]:
    for element in root.findall(f"{TSL}TrustServiceProviderList/{TSL}TrustServiceProvider"):
        names = _names(element.find(f"{TSL}TSPInformation/{TSL}TSPName"))
        services = (_service(reading, service) for service in element.findall(f"{TSL}TSPServices/{TSL}TSPService"))
        yield Provider(names, tuple(service for service in services if service is not None))


def _service(reading: _Reading, element: Element) -> Service | None:
    information = _only(reading, element, "ServiceInformation")
    current = None if information is None else _instance(reading, information)
    if current is None:
        return None  # without its present state, its past does not describe the present
    history = [
        _instance(reading, instance) for instance in element.findall(f"{TSL}ServiceHistory/{TSL}ServiceHistoryInstance")
    ]
    for state in filter(None, (current, *history)):
        if state.type == QUALIFIED_CA:
            _check_certificates(reading, state)
    past = sorted((instance for instance in history if instance is not None), key=lambda i: i.since, reverse=True)
    return Service((current, *past), _complete_since([current, *history]))


def _check_certificates(reading: _Reading, state: ServiceInstance) -> None:
    for data in state.identity.certificates_der:
        try:
            EidasCertificate.from_der(data)
        except FormatError as e:
            reading.note(f"a certificate of the service {shown(state.name)} cannot be read: {e.message}")


def _complete_since(states: Sequence[ServiceInstance | None]) -> datetime | None:
    """The beginning of the oldest state after which none is unreadable; None if all are readable.

    The list has the latest state first. If it does not, an unreadable state may belong anywhere, so only the present one counts.
    """
    if None not in states:
        return None
    readable = [state.since for state in states if state is not None]
    if readable != sorted(readable, reverse=True):
        return readable[0]
    return readable[states.index(None) - 1]


def _instance(reading: _Reading, element: Element) -> ServiceInstance | None:
    reading.pace()
    names = _names(element.find(f"{TSL}ServiceName"))
    started = _text(reading, element, "StatusStartingTime")
    try:
        since = parse_time(started)
    except FormatError:
        reading.note(
            f"the service {shown(names[0] if names else '')} has a state since {shown(started)}, which is ignored"
        )
        return None
    extensions = element.findall(f"{TSL}ServiceInformationExtensions/{TSL}Extension")
    heirs = [
        _names(found.find(f"{ADDITIONAL_TYPES}TSPName")) for one in extensions for found in one.findall(_TAKEN_OVER)
    ]
    return ServiceInstance(
        type=_text(reading, element, "ServiceTypeIdentifier"),
        names=names,
        status=_text(reading, element, "ServiceStatus"),
        since=since,
        identity=_identity(reading, _only(reading, element, "ServiceDigitalIdentity")),
        information=tuple(_text(reading, found, "URI") for one in extensions for found in one.findall(_INFORMATION)),
        qualifications=tuple(
            qualification
            for one in extensions
            for found in one.findall(_QUALIFICATIONS)
            for qualification in read_qualifications(found)
        ),
        unknown_critical=tuple(name for one in extensions for name in _unknown_critical(one)),
        taken_over_by=(heirs[0] or ("another provider",))[0] if heirs else None,
    )


def _identity(reading: _Reading, element: Element | None) -> DigitalIdentity:
    if element is None:
        return DigitalIdentity()
    key_ids = (_decoded(reading, found, "key identifier") for found in element.findall(f"{TSL}DigitalId/{TSL}X509SKI"))
    return DigitalIdentity(
        certificates_der=tuple(_certificates(reading, element)),
        key_ids=tuple(key_id for key_id in key_ids if key_id),
        has_subject=element.find(f"{TSL}DigitalId/{TSL}X509SubjectName") is not None,
    )


def _certificates(reading: _Reading, identity: Element) -> Iterator[bytes]:
    for element in identity.findall(f"{TSL}DigitalId/{TSL}X509Certificate"):
        data = _decoded(reading, element, "certificate")
        if data:
            yield data


def _decoded(reading: _Reading, element: Element, what: str) -> bytes:
    try:
        return decode_base64("".join((element.text or "").split()), what=f"a {what}")
    except FormatError as e:
        reading.note(e.message)
        return b""


def _unknown_critical(extension: Element) -> Iterator[str]:
    """The names of the parts of an extension that must be processed, and are not known."""
    if (extension.get("Critical") or "").strip() in ("true", "1"):
        tags = [child.tag for child in extension if isinstance(child.tag, str)] or ["(empty)"]
        yield from (tag.rpartition("}")[2] for tag in tags if tag not in _KNOWN_EXTENSIONS)
