"""A small hierarchy of trusted lists: a list of lists, and a national list in which issuing authorities are granted services.

The text is written in its canonical form, so the bytes that are signed are those that are written, and no XML library is needed.

Sources: ETSI TS 119 612 clause 5 and annex B, XML Signature 1.1, ETSI EN 319 132-1 (XAdES baseline B), Canonical XML.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from tppkit._clock import as_utc, format_time
from tppkit.certificates import EidasCertificate
from tppkit.testpki.certificate import Issued
from tppkit.testpki.pki import Pki
from tppkit.testpki.signing import sign_bytes

LIST_FILES = ("eu-lotl.xml", "LT.xml")
_TERRITORY = "LT"
LIST_DAYS = 180  # the longest that TS 119 612 clause 5.3.15 allows is six months
_STATUS = "http://uri.etsi.org/TrstSvc/TrustedList/Svcstatus/granted"
_QUALIFIED_CA = "http://uri.etsi.org/TrstSvc/Svctype/CA/QC"
_INFORMATION = "http://uri.etsi.org/TrstSvc/TrustedList/SvcInfoExt/"
_LIST_TYPE = "http://uri.etsi.org/TrstSvc/TrustedList/TSLType/"
_APPROACH = "http://uri.etsi.org/TrstSvc/TrustedList/StatusDetn/"
_RULES = "http://uri.etsi.org/TrstSvc/TrustedList/schemerules/"
_MEDIA_TYPE = "application/vnd.etsi.tsl+xml"
_DS, _XADES = "http://www.w3.org/2000/09/xmldsig#", "http://uri.etsi.org/01903/v1.3.2#"
_EXCLUSIVE = "http://www.w3.org/2001/10/xml-exc-c14n#"
_SHA256 = "http://www.w3.org/2001/04/xmlenc#sha256"


@dataclass(frozen=True, slots=True)
class ListedService:
    """An authority as a national list has it.

    Attributes:
        certificate: the authority's.
        name: the service's name.
        information: of `ForWebSiteAuthentication`, `ForeSeals`, `ForeSignatures`.
        since: since when it is granted, aware UTC.
    """

    certificate: EidasCertificate
    name: str
    information: str
    since: datetime


def make_trusted_lists(pki: Pki, *, at: datetime, sequence: int = 1) -> dict[str, bytes]:
    """The lists of a test PKI by file name: its issuing authorities are granted services since its beginning.

    Args:
        pki: the PKI.
        at: when the lists are issued, aware; they are good for 180 days.
        sequence: number of this issue of both lists, 1 for the first.
    """
    at = as_utc(at).replace(microsecond=0)
    lotl_file, national_file = LIST_FILES
    lotl_signer, list_signer = pki.members["lotl-signer"], pki.members["list-signer"]
    services = [
        ListedService(
            pki.qwac_ca.certificate, "TEST qualified website certificates", "ForWebSiteAuthentication", pki.not_before
        ),
        ListedService(pki.qseal_ca.certificate, "TEST qualified seal certificates", "ForeSeals", pki.not_before),
    ]
    own = _pointer(f"{pki.services_url}/{lotl_file}", "EU", _list_type("EUlistofthelists"), [lotl_signer.certificate])
    other = _pointer(
        f"{pki.services_url}/{national_file}", _TERRITORY, _list_type("EUgeneric"), [list_signer.certificate]
    )
    lotl = _document(_scheme("EU", "EUlistofthelists", [own, other], at, sequence), "")
    granted = _document(_scheme(_TERRITORY, "EUgeneric", [own], at, sequence), _providers(services))
    return {lotl_file: sign_list(lotl, lotl_signer, at=at), national_file: sign_list(granted, list_signer, at=at)}


def _list_type(name: str) -> str:
    return _LIST_TYPE + name


def _document(scheme: str, providers: str) -> str:
    namespaces = 'xmlns="http://uri.etsi.org/02231/v2#" xmlns:add="http://uri.etsi.org/02231/v2/additionaltypes#"'
    head = f'<TrustServiceStatusList {namespaces} Id="list" TSLTag="http://uri.etsi.org/19612/TSLTag">'
    return f"{head}{scheme}{providers}</TrustServiceStatusList>"


def _text(element: str, text: str) -> str:
    return f"<{element}>{_escape(text)}</{element}>"


def _english(element: str, text: str) -> str:
    return f'<{element} xml:lang="en">{_escape(text)}</{element}>'


def _escape(text: str) -> str:
    """Character data as Canonical XML writes it."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\r", "&#xD;")


def _names(element: str, name: str) -> str:
    return f"<{element}>{_english('Name', name)}</{element}>"


def _operator(territory: str) -> str:
    return _names("SchemeOperatorName", f"Scheme operator of {territory} TEST")


def _address(element: str) -> str:
    postal = "".join(_text(name, text) for name, text in (
        ("StreetAddress", "Example street 1"), ("Locality", "Vilnius"), ("PostalCode", "01100"), ("CountryName", "LT"),
    ))  # fmt: skip
    electronic = "".join(
        _english("URI", uri) for uri in ("mailto:lists@pki.test.example.com", "https://pki.test.example.com")
    )
    return (
        f'<{element}><PostalAddresses><PostalAddress xml:lang="en">{postal}</PostalAddress></PostalAddresses>'
        f"<ElectronicAddress>{electronic}</ElectronicAddress></{element}>"
    )


def _scheme(territory: str, kind: str, pointers: Sequence[str], at: datetime, sequence: int) -> str:
    suffix = "EUlistofthelists" if territory == "EU" else "EUcommon"
    approach = "EUlistofthelists" if territory == "EU" else "EUappropriate"
    parts = (
        _text("TSLVersionIdentifier", "5"),
        _text("TSLSequenceNumber", str(sequence)),
        _text("TSLType", _list_type(kind)),
        _operator(territory),
        _address("SchemeOperatorAddress"),
        _names("SchemeName", f"{territory}:TEST trusted list, not to be relied on"),
        f"<SchemeInformationURI>{_english('URI', 'https://pki.test.example.com/lists')}</SchemeInformationURI>",
        _text("StatusDeterminationApproach", _APPROACH + approach),
        f"<SchemeTypeCommunityRules>{_english('URI', _RULES + suffix)}</SchemeTypeCommunityRules>",
        _text("SchemeTerritory", territory),
        f"<PolicyOrLegalNotice>{_english('TSLLegalNotice', 'TEST: with no legal effect.')}</PolicyOrLegalNotice>",
        _text("HistoricalInformationPeriod", "65535"),
        f"<PointersToOtherTSL>{''.join(pointers)}</PointersToOtherTSL>",
        _text("ListIssueDateTime", format_time(at)),
        f"<NextUpdate>{_text('dateTime', format_time(at + timedelta(days=LIST_DAYS)))}</NextUpdate>",
    )
    return f"<SchemeInformation>{''.join(parts)}</SchemeInformation>"


def _pointer(location: str, territory: str, list_type: str, signers: Sequence[EidasCertificate]) -> str:
    identities = "".join(_identity("ServiceDigitalIdentity", signer) for signer in signers)
    facts = (
        _text("TSLType", list_type),
        _operator(territory),
        f"<SchemeTypeCommunityRules>{_english('URI', _RULES + 'EUcommon')}</SchemeTypeCommunityRules>",
        _text("SchemeTerritory", territory),
        _text("add:MimeType", _MEDIA_TYPE),
    )
    information = "".join(f"<OtherInformation>{fact}</OtherInformation>" for fact in facts)
    return (
        f"<OtherTSLPointer><ServiceDigitalIdentities>{identities}</ServiceDigitalIdentities>{_text('TSLLocation', location)}"
        f"<AdditionalInformation>{information}</AdditionalInformation></OtherTSLPointer>"
    )


def _identity(element: str, certificate: EidasCertificate) -> str:
    return f"<{element}><DigitalId>{_text('X509Certificate', _base64(certificate.der))}</DigitalId></{element}>"


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _providers(services: Sequence[ListedService]) -> str:
    name = "tppkit TEST Trust Services"
    information = (
        f"<TSPInformation>{_names('TSPName', name)}{_names('TSPTradeName', 'NTRLT-000000000')}{_address('TSPAddress')}"
        f"<TSPInformationURI>{_english('URI', 'https://pki.test.example.com')}</TSPInformationURI></TSPInformation>"
    )
    listed = "".join(map(_service, services))
    provider = f"<TrustServiceProvider>{information}<TSPServices>{listed}</TSPServices></TrustServiceProvider>"
    return f"<TrustServiceProviderList>{provider}</TrustServiceProviderList>"


def _service(service: ListedService) -> str:
    key = _text("X509SKI", _base64(service.certificate.extensions.subject_key_identifier or b""))
    subject = _text("X509SubjectName", str(service.certificate.subject))
    identity = _identity("ServiceDigitalIdentity", service.certificate).replace(
        "</ServiceDigitalIdentity>",
        f"<DigitalId>{subject}</DigitalId><DigitalId>{key}</DigitalId></ServiceDigitalIdentity>",
    )
    uri = _english("URI", _INFORMATION + service.information)
    extension = (
        f'<Extension Critical="true"><AdditionalServiceInformation>{uri}</AdditionalServiceInformation></Extension>'
    )
    return (
        f"<TSPService><ServiceInformation>{_text('ServiceTypeIdentifier', _QUALIFIED_CA)}{_names('ServiceName', service.name)}{identity}"
        f"{_text('ServiceStatus', _STATUS)}{_text('StatusStartingTime', format_time(service.since))}"
        f"<ServiceInformationExtensions>{extension}</ServiceInformationExtensions></ServiceInformation></TSPService>"
    )


def sign_list(document: str, signer: Issued, *, at: datetime) -> bytes:
    """A list with its enveloped XAdES signature, directly before the root element's end.

    Args:
        document: the list in canonical form.
        signer: whose certificate stands in the signature.
        at: the signing time, aware UTC.
    """
    properties = _signed_properties(signer.certificate, at)
    information = _signed_info(document, properties, signer)
    octets = sign_bytes(signer.key, _apex(information, "ds:SignedInfo", f'xmlns:ds="{_DS}"').encode(), "sha256")
    if isinstance(
        signer.key, ec.EllipticCurvePrivateKey
    ):  # XML Signature 1.1 section 6.4.3: both numbers, of full size
        size = (signer.key.key_size + 7) // 8
        octets = b"".join(number.to_bytes(size, "big") for number in decode_dss_signature(octets))
    certificate = _text("ds:X509Certificate", _base64(signer.certificate.der))
    signature = (
        f'<ds:Signature xmlns:ds="{_DS}" Id="signature">{information}{_text("ds:SignatureValue", _base64(octets))}'
        f"<ds:KeyInfo><ds:X509Data>{certificate}</ds:X509Data></ds:KeyInfo>"
        f'<ds:Object><xades:QualifyingProperties xmlns:xades="{_XADES}" Target="#signature">{properties}'
        "</xades:QualifyingProperties></ds:Object></ds:Signature>"
    )
    body = document.removesuffix("</TrustServiceStatusList>")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}{signature}</TrustServiceStatusList>'.encode()


def _apex(element: str, tag: str, namespaces: str) -> str:
    """The element as it stands alone in canonical form: the namespaces that it uses are declared in it."""
    return element.replace(f"<{tag}", f"<{tag} {namespaces}", 1)


def _signed_properties(certificate: EidasCertificate, at: datetime) -> str:
    digest = _digest_of(certificate.der)
    return (
        '<xades:SignedProperties Id="signed-properties"><xades:SignedSignatureProperties>'
        f"{_text('xades:SigningTime', format_time(at))}"
        f"<xades:SigningCertificateV2><xades:Cert><xades:CertDigest>{digest}</xades:CertDigest></xades:Cert></xades:SigningCertificateV2>"
        "</xades:SignedSignatureProperties></xades:SignedProperties>"
    )


def _digest_of(data: bytes) -> str:
    value = _base64(hashlib.sha256(data).digest())
    return f'<ds:DigestMethod Algorithm="{_SHA256}"></ds:DigestMethod>{_text("ds:DigestValue", value)}'


def _signed_info(document: str, properties: str, signer: Issued) -> str:
    kind = "ecdsa-sha256" if isinstance(signer.key, ec.EllipticCurvePrivateKey) else "rsa-sha256"
    exclusive = f'<ds:Transform Algorithm="{_EXCLUSIVE}"></ds:Transform>'
    enveloped = f'<ds:Transform Algorithm="{_DS}enveloped-signature"></ds:Transform>'
    alone = _apex(properties, "xades:SignedProperties", f'xmlns:xades="{_XADES}"')
    alone = alone.replace("<ds:DigestMethod", f'<ds:DigestMethod xmlns:ds="{_DS}"').replace(
        "<ds:DigestValue", f'<ds:DigestValue xmlns:ds="{_DS}"'
    )
    return (
        f'<ds:SignedInfo><ds:CanonicalizationMethod Algorithm="{_EXCLUSIVE}"></ds:CanonicalizationMethod>'
        f'<ds:SignatureMethod Algorithm="http://www.w3.org/2001/04/xmldsig-more#{kind}"></ds:SignatureMethod>'
        f'<ds:Reference URI=""><ds:Transforms>{enveloped}{exclusive}</ds:Transforms>'
        f"{_digest_of(_canonical_document(document))}</ds:Reference>"
        f'<ds:Reference Type="http://uri.etsi.org/01903#SignedProperties" URI="#signed-properties">'
        f"<ds:Transforms>{exclusive}</ds:Transforms>{_digest_of(alone.encode())}</ds:Reference></ds:SignedInfo>"
    )


def _canonical_document(document: str) -> bytes:
    """Exclusive canonicalization declares a namespace only where its prefix is used."""
    additional = ' xmlns:add="http://uri.etsi.org/02231/v2/additionaltypes#"'
    return document.replace(additional, "", 1).replace("<add:MimeType", f"<add:MimeType{additional}").encode()
