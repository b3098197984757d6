"""Trusted lists made for tests: plain XML text from a few facts, signed by signxml."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from xml.sax.saxutils import escape

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from lxml import etree
from signxml.algorithms import CanonicalizationMethod, DigestAlgorithm, SignatureMethod
from signxml.xades import XAdESSigner

from tppkit.certificates import EidasCertificate
from tppkit.testpki import make_provider
from tppkit.testpki.profiles import qwac_extensions
from tppkit.trust import TrustedLists
from tppkit.trust.trusted_list.model import TrustedList
from tppkit.trust.trusted_list.reader import UnverifiedList
from tppkit.trust.trusted_list.uris import LIST_OF_LISTS, NATIONAL_LIST, QUALIFIED_CA, XML_LIST_MEDIA_TYPE

START, AT = datetime(2026, 1, 15, tzinfo=UTC), datetime(2026, 6, 1, tzinfo=UTC)
QWAC = {"ca": False, "starts": START, "extensions": tuple(qwac_extensions(make_provider()))}  # of `certify`
ISSUED, NEXT_UPDATE = datetime(2026, 5, 1, tzinfo=UTC), datetime(2026, 10, 31, tzinfo=UTC)
STATUS = "http://uri.etsi.org/TrstSvc/TrustedList/Svcstatus/"
INFORMATION = "http://uri.etsi.org/TrstSvc/TrustedList/SvcInfoExt/"
WEB, SEALS, SIGNATURES, ROOT = (
    f"{INFORMATION}{name}" for name in ("ForWebSiteAuthentication", "ForeSeals", "ForeSignatures", "RootCA-QC")
)
_NAMESPACES = (
    'xmlns="http://uri.etsi.org/02231/v2#" xmlns:add="http://uri.etsi.org/02231/v2/additionaltypes#"'
    ' xmlns:q="http://uri.etsi.org/TrstSvc/SvcInfoExt/eSigDir-1999-93-EC-TrustedList/#"'
    ' xmlns:x="http://uri.etsi.org/01903/v1.3.2#"'
)


@dataclass(frozen=True)
class State:
    """A state of a service, from `since` on."""

    status: str
    since: datetime
    information: Sequence[str] = (WEB,)
    type: str = QUALIFIED_CA
    extensions: str = ""  # further Extension elements
    key: EidasCertificate | None = None  # another certificate than the service's
    name: str | None = None


@dataclass(frozen=True)
class Listed:
    """A service: its certificate, its states with the present one first."""

    certificate: EidasCertificate
    states: Sequence[State]
    name: str = "Web CA"
    bare: bool = False  # the present state names the key by subject and key identifier only


@dataclass(frozen=True)
class ListFacts:
    """The frame of a list."""

    territory: str = "PT"
    type: str = NATIONAL_LIST
    operator: str = "Scheme operator of PT"
    sequence_number: int = 7
    issued: datetime = ISSUED
    next_update: datetime | None = NEXT_UPDATE
    information_uris: Sequence[str] = ()
    pointers: Sequence[str] = ()
    providers: Mapping[str, Sequence[Listed]] = field(default_factory=dict)
    identifier: str = ""  # with one, signxml refers to the list by it and not as the whole document


def when(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def qualifications(qualifiers: Sequence[str], criteria: str, *, critical: str = "true") -> str:
    """A Qualifications extension with one element."""
    found = "".join(f'<q:Qualifier uri="{INFORMATION}{name}"/>' for name in qualifiers)
    element = f"<q:QualificationElement><q:Qualifiers>{found}</q:Qualifiers>{criteria}</q:QualificationElement>"
    return f'<Extension Critical="{critical}"><q:Qualifications>{element}</q:Qualifications></Extension>'


def policies(*oids: str) -> str:
    """A PolicySet."""
    found = "".join(f"<q:PolicyIdentifier><x:Identifier>{oid}</x:Identifier></q:PolicyIdentifier>" for oid in oids)
    return f"<q:PolicySet>{found}</q:PolicySet>"


def criteria(content: str, assertion: str = "all") -> str:
    """A CriteriaList."""
    return f'<q:CriteriaList assert="{assertion}">{content}</q:CriteriaList>'


def certificate_identity(certificate: EidasCertificate) -> str:
    """A DigitalId with a certificate."""
    return f"<DigitalId><X509Certificate>{base64.b64encode(certificate.der).decode()}</X509Certificate></DigitalId>"


def bare_identity(certificate: EidasCertificate) -> str:
    """DigitalIds with subject and key identifier."""
    key_id = base64.b64encode(certificate.extensions.subject_key_identifier or b"").decode()
    name = escape(str(certificate.subject))
    return f"<DigitalId><X509SubjectName>{name}</X509SubjectName></DigitalId><DigitalId><X509SKI>{key_id}</X509SKI></DigitalId>"


def pointer(
    territory: str, signers: Sequence[EidasCertificate], *, operator: str | None = None, location: str | None = None,
    type_: str = NATIONAL_LIST, media_type: str = XML_LIST_MEDIA_TYPE,
) -> str:  # fmt: skip
    """An OtherTSLPointer."""
    identities = "".join(
        f"<ServiceDigitalIdentity>{certificate_identity(one)}</ServiceDigitalIdentity>" for one in signers
    )
    facts = (
        f"<TSLType>{type_}</TSLType>",
        f"<SchemeOperatorName><Name>{operator or f'Scheme operator of {territory}'}</Name></SchemeOperatorName>",
        f"<SchemeTerritory>{territory}</SchemeTerritory>",
        f"<add:MimeType>{media_type}</add:MimeType>",
    )
    information = "".join(f"<OtherInformation>{fact}</OtherInformation>" for fact in facts)
    return (
        f"<OtherTSLPointer><ServiceDigitalIdentities>{identities}</ServiceDigitalIdentities>"
        f"<TSLLocation>{location or f'https://lists.test.example/{territory}.xml'}</TSLLocation>"
        f"<AdditionalInformation>{information}</AdditionalInformation></OtherTSLPointer>"
    )


def _state(listed: Listed, state: State, *, current: bool) -> str:
    key = state.key or listed.certificate
    identity = certificate_identity(key) if current and not listed.bare else bare_identity(key)
    information = "".join(
        '<Extension Critical="true"><AdditionalServiceInformation>'
        f'<URI xml:lang="en">{uri}</URI></AdditionalServiceInformation></Extension>'
        for uri in state.information
    )
    return (
        f"<ServiceTypeIdentifier>{state.type}</ServiceTypeIdentifier>"
        f'<ServiceName><Name xml:lang="en">{escape(state.name or listed.name)}</Name></ServiceName>'
        f"<ServiceDigitalIdentity>{identity}</ServiceDigitalIdentity>"
        f"<ServiceStatus>{state.status if ':' in state.status else STATUS + state.status}</ServiceStatus>"
        f"<StatusStartingTime>{when(state.since)}</StatusStartingTime>"
        f"<ServiceInformationExtensions>{information}{state.extensions}</ServiceInformationExtensions>"
    )


def _service(listed: Listed) -> str:
    current, *past = listed.states
    history = "".join(
        f"<ServiceHistoryInstance>{_state(listed, state, current=False)}</ServiceHistoryInstance>" for state in past
    )
    return (
        f"<TSPService><ServiceInformation>{_state(listed, current, current=True)}</ServiceInformation>"
        f"<ServiceHistory>{history}</ServiceHistory></TSPService>"
    )


def write_list(facts: ListFacts) -> str:
    """A list, not signed."""
    providers = "".join(
        f'<TrustServiceProvider><TSPInformation><TSPName><Name xml:lang="en">{escape(name)}</Name></TSPName>'
        f"</TSPInformation><TSPServices>{''.join(map(_service, services))}</TSPServices></TrustServiceProvider>"
        for name, services in facts.providers.items()
    )
    identifier = f'Id="{facts.identifier}" ' if facts.identifier else ""
    uris = "".join(f'<URI xml:lang="en">{uri}</URI>' for uri in facts.information_uris)
    next_update = f"<dateTime>{when(facts.next_update)}</dateTime>" if facts.next_update else ""
    return (
        f'<TrustServiceStatusList {_NAMESPACES} {identifier}TSLTag="http://uri.etsi.org/19612/TSLTag"><SchemeInformation>'
        f"<TSLVersionIdentifier>5</TSLVersionIdentifier><TSLSequenceNumber>{facts.sequence_number}</TSLSequenceNumber>"
        f"<TSLType>{facts.type}</TSLType>"
        f'<SchemeOperatorName><Name xml:lang="en">{facts.operator}</Name></SchemeOperatorName>'
        f"<SchemeInformationURI>{uris}</SchemeInformationURI><SchemeTerritory>{facts.territory}</SchemeTerritory>"
        f"<PointersToOtherTSL>{''.join(facts.pointers)}</PointersToOtherTSL>"
        f"<ListIssueDateTime>{when(facts.issued)}</ListIssueDateTime><NextUpdate>{next_update}</NextUpdate>"
        f"</SchemeInformation><TrustServiceProviderList>{providers}</TrustServiceProviderList></TrustServiceStatusList>"
    )


def list_of_lists(pointers: Sequence[str], **facts: Any) -> str:
    """A list of lists, not signed."""
    given = {"territory": "EU", "type": LIST_OF_LISTS, "operator": "Commission TEST", "sequence_number": 300, **facts}
    return write_list(ListFacts(pointers=pointers, **given))


class _Signer(XAdESSigner):
    """signxml's, with the transform written that it applies: without one, canonicalization would be the inclusive one."""

    def _add_reference_to_signed_info(self, sig_root: Any, node_to_reference: Any, **attrs: str) -> None:
        super()._add_reference_to_signed_info(sig_root, node_to_reference, **attrs)
        reference = sig_root.find("{*}SignedInfo")[-1]
        transforms = etree.Element("{http://www.w3.org/2000/09/xmldsig#}Transforms")
        reference.insert(0, transforms)
        etree.SubElement(transforms, "{http://www.w3.org/2000/09/xmldsig#}Transform", Algorithm=self.c14n_alg.value)


def sign(
    text: str | bytes,
    signer: Any,
    *,
    method: SignatureMethod = SignatureMethod.ECDSA_SHA256,
    digest: DigestAlgorithm = DigestAlgorithm.SHA256,
    canonicalization: CanonicalizationMethod = CanonicalizationMethod.EXCLUSIVE_XML_CANONICALIZATION_1_0,
) -> bytes:
    """The list with an enveloped XAdES signature of `signer`, which has `certificate` and `key`."""
    signing = _Signer(signature_algorithm=method, digest_algorithm=digest, c14n_algorithm=canonicalization)
    key = signer.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    root = etree.fromstring(text if isinstance(text, bytes) else text.encode())
    signed = signing.sign(root, key=key, cert=[signer.certificate.x509], always_add_key_value=False)
    result: bytes = etree.tostring(signed, xml_declaration=True, encoding="UTF-8")
    return result


def verified(signed: bytes, signer: Any, source: str = "PT.xml") -> TrustedList:
    """The list, verified as one that `signer` may sign."""
    return UnverifiedList(signed, source=source).verify(signers={signer.certificate.sha256})


def verified_lists(operator: Any, *services: Listed, edit: Callable[[str], str] = str) -> TrustedLists:
    """One verified list of Portugal with these services of one provider.

    Args:
        operator: signs it.
        services: what it lists.
        edit: changes the text before it is signed.
    """
    text = edit(write_list(ListFacts(providers={"Provider": services})))
    return TrustedLists([verified(sign(text, operator), operator)])
