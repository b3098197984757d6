"""The trusted lists of a test PKI: a list of lists, and a national list that grants services to the issuing authorities.

The templates are in canonical form, so the signed bytes are the written bytes, and no XML library is needed.

Sources: ETSI TS 119 612 clause 5 and annex B, XML Signature 1.1, ETSI EN 319 132-1 (XAdES baseline B), Canonical XML.
"""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from tppkit._clock import as_utc, format_time
from tppkit._encoding import encode_base64
from tppkit.certificates import EidasCertificate
from tppkit.testpki.certificate import Issued
from tppkit.testpki.pki import Pki
from tppkit.testpki.signing import sign_bytes

LIST_FILES = ("eu-lotl.xml", "LT.xml")
LIST_DAYS = 180  # TS 119 612 clause 5.3.15 allows six months
_TERRITORY = "LT"
_ETSI = "http://uri.etsi.org/TrstSvc/TrustedList"
_DS, _XADES = "http://www.w3.org/2000/09/xmldsig#", "http://uri.etsi.org/01903/v1.3.2#"
_ADDITIONAL = ' xmlns:add="http://uri.etsi.org/02231/v2/additionaltypes#"'
_EXCLUSIVE = '<ds:Transform Algorithm="http://www.w3.org/2001/10/xml-exc-c14n#"></ds:Transform>'


def _template(text: str) -> str:
    return "".join(line.strip() for line in text.splitlines())


_ADDRESS = """
<PostalAddresses><PostalAddress xml:lang="en"><StreetAddress>Example street 1</StreetAddress><Locality>Vilnius</Locality>
<PostalCode>01100</PostalCode><CountryName>LT</CountryName></PostalAddress></PostalAddresses>
<ElectronicAddress><URI xml:lang="en">mailto:lists@pki.test.example.com</URI>
<URI xml:lang="en">https://pki.test.example.com</URI></ElectronicAddress>
"""
_OPERATOR = '<SchemeOperatorName><Name xml:lang="en">Scheme operator of {territory} TEST</Name></SchemeOperatorName>'
_LIST = _template(f"""
<TrustServiceStatusList xmlns="http://uri.etsi.org/02231/v2#"{_ADDITIONAL} Id="list" TSLTag="http://uri.etsi.org/19612/TSLTag">
<SchemeInformation>
    <TSLVersionIdentifier>5</TSLVersionIdentifier>
    <TSLSequenceNumber>{{sequence}}</TSLSequenceNumber>
    <TSLType>{_ETSI}/TSLType/{{kind}}</TSLType>
    {_OPERATOR}
    <SchemeOperatorAddress>{_ADDRESS}</SchemeOperatorAddress>
    <SchemeName><Name xml:lang="en">{{territory}}:TEST trusted list, not to be relied on</Name></SchemeName>
    <SchemeInformationURI><URI xml:lang="en">https://pki.test.example.com/lists</URI></SchemeInformationURI>
    <StatusDeterminationApproach>{_ETSI}/StatusDetn/{{approach}}</StatusDeterminationApproach>
    <SchemeTypeCommunityRules><URI xml:lang="en">{_ETSI}/schemerules/{{rules}}</URI></SchemeTypeCommunityRules>
    <SchemeTerritory>{{territory}}</SchemeTerritory>
    <PolicyOrLegalNotice><TSLLegalNotice xml:lang="en">TEST: with no legal effect.</TSLLegalNotice></PolicyOrLegalNotice>
    <HistoricalInformationPeriod>65535</HistoricalInformationPeriod>
    <PointersToOtherTSL>{{pointers}}</PointersToOtherTSL>
    <ListIssueDateTime>{{issued}}</ListIssueDateTime>
    <NextUpdate><dateTime>{{next_update}}</dateTime></NextUpdate>
</SchemeInformation>{{providers}}</TrustServiceStatusList>
""")
_POINTER = _template(f"""
<OtherTSLPointer>
    <ServiceDigitalIdentities><ServiceDigitalIdentity><DigitalId><X509Certificate>{{signer}}</X509Certificate></DigitalId>
    </ServiceDigitalIdentity></ServiceDigitalIdentities>
    <TSLLocation>{{location}}</TSLLocation>
    <AdditionalInformation>
        <OtherInformation><TSLType>{_ETSI}/TSLType/{{kind}}</TSLType></OtherInformation>
        <OtherInformation>{_OPERATOR}</OtherInformation>
        <OtherInformation><SchemeTypeCommunityRules><URI xml:lang="en">{_ETSI}/schemerules/EUcommon</URI>
        </SchemeTypeCommunityRules></OtherInformation>
        <OtherInformation><SchemeTerritory>{{territory}}</SchemeTerritory></OtherInformation>
        <OtherInformation><add:MimeType>application/vnd.etsi.tsl+xml</add:MimeType></OtherInformation>
    </AdditionalInformation>
</OtherTSLPointer>
""")
_PROVIDERS = _template(f"""
<TrustServiceProviderList><TrustServiceProvider>
    <TSPInformation>
        <TSPName><Name xml:lang="en">tppkit TEST Trust Services</Name></TSPName>
        <TSPTradeName><Name xml:lang="en">NTRLT-000000000</Name></TSPTradeName>
        <TSPAddress>{_ADDRESS}</TSPAddress>
        <TSPInformationURI><URI xml:lang="en">https://pki.test.example.com</URI></TSPInformationURI>
    </TSPInformation>
    <TSPServices>{{services}}</TSPServices>
</TrustServiceProvider></TrustServiceProviderList>
""")
_SERVICE = _template(f"""
<TSPService><ServiceInformation>
    <ServiceTypeIdentifier>http://uri.etsi.org/TrstSvc/Svctype/CA/QC</ServiceTypeIdentifier>
    <ServiceName><Name xml:lang="en">{{name}}</Name></ServiceName>
    <ServiceDigitalIdentity>
        <DigitalId><X509Certificate>{{certificate}}</X509Certificate></DigitalId>
        <DigitalId><X509SubjectName>{{subject}}</X509SubjectName></DigitalId>
        <DigitalId><X509SKI>{{key_identifier}}</X509SKI></DigitalId>
    </ServiceDigitalIdentity>
    <ServiceStatus>{_ETSI}/Svcstatus/granted</ServiceStatus>
    <StatusStartingTime>{{since}}</StatusStartingTime>
    <ServiceInformationExtensions><Extension Critical="true"><AdditionalServiceInformation>
        <URI xml:lang="en">{_ETSI}/SvcInfoExt/{{information}}</URI>
    </AdditionalServiceInformation></Extension></ServiceInformationExtensions>
</ServiceInformation></TSPService>
""")
_DIGEST = (
    '<ds:DigestMethod Algorithm="http://www.w3.org/2001/04/xmlenc#sha256"></ds:DigestMethod>'
    "<ds:DigestValue>{digest}</ds:DigestValue>"
)
_PROPERTIES = _template(f"""
<xades:SignedProperties Id="signed-properties"><xades:SignedSignatureProperties>
    <xades:SigningTime>{{at}}</xades:SigningTime>
    <xades:SigningCertificateV2><xades:Cert><xades:CertDigest>{_DIGEST}</xades:CertDigest></xades:Cert></xades:SigningCertificateV2>
</xades:SignedSignatureProperties></xades:SignedProperties>
""")
_SIGNED_INFO = _template(f"""
<ds:SignedInfo>
    <ds:CanonicalizationMethod Algorithm="http://www.w3.org/2001/10/xml-exc-c14n#"></ds:CanonicalizationMethod>
    <ds:SignatureMethod Algorithm="http://www.w3.org/2001/04/xmldsig-more#{{algorithm}}"></ds:SignatureMethod>
    <ds:Reference URI=""><ds:Transforms><ds:Transform Algorithm="{_DS}enveloped-signature"></ds:Transform>{_EXCLUSIVE}</ds:Transforms>
    {{document}}</ds:Reference>
    <ds:Reference Type="http://uri.etsi.org/01903#SignedProperties" URI="#signed-properties">
    <ds:Transforms>{_EXCLUSIVE}</ds:Transforms>{{properties}}</ds:Reference>
</ds:SignedInfo>
""")
_SIGNATURE = _template(f"""
<ds:Signature xmlns:ds="{_DS}" Id="signature">{{information}}<ds:SignatureValue>{{value}}</ds:SignatureValue>
    <ds:KeyInfo><ds:X509Data><ds:X509Certificate>{{certificate}}</ds:X509Certificate></ds:X509Data></ds:KeyInfo>
    <ds:Object><xades:QualifyingProperties xmlns:xades="{_XADES}" Target="#signature">{{properties}}
    </xades:QualifyingProperties></ds:Object>
</ds:Signature>
""")


def make_trusted_lists(pki: Pki, *, at: datetime, sequence: int = 1) -> dict[str, bytes]:
    """Make the trusted lists of a test PKI, by file name; its issuing authorities are granted services since it began.

    Args:
        pki: The PKI.
        at: Time of issue, aware; the lists are valid for 180 days.
        sequence: Sequence number of both lists, 1 for the first issue.
    """
    at = as_utc(at).replace(microsecond=0)
    lotl_file, national_file = LIST_FILES
    lotl_signer, list_signer = pki.members["lotl-signer"], pki.members["list-signer"]
    own = _POINTER.format(
        location=_escaped(f"{pki.services_url}/{lotl_file}"), territory="EU", kind="EUlistofthelists",
        signer=encode_base64(lotl_signer.certificate.der),
    )  # fmt: skip
    other = _POINTER.format(
        location=_escaped(f"{pki.services_url}/{national_file}"), territory=_TERRITORY, kind="EUgeneric",
        signer=encode_base64(list_signer.certificate.der),
    )  # fmt: skip
    services = _service(pki, pki.qwac_ca.certificate, "TEST qualified website certificates", "ForWebSiteAuthentication")
    services += _service(pki, pki.qseal_ca.certificate, "TEST qualified seal certificates", "ForeSeals")
    dates = {
        "issued": format_time(at),
        "next_update": format_time(at + timedelta(days=LIST_DAYS)),
        "sequence": sequence,
    }
    lotl = _LIST.format(
        territory="EU", kind="EUlistofthelists", approach="EUlistofthelists", rules="EUlistofthelists", pointers=own + other,
        providers="", **dates,
    )  # fmt: skip
    national = _LIST.format(
        territory=_TERRITORY, kind="EUgeneric", approach="EUappropriate", rules="EUcommon", pointers=own,
        providers=_PROVIDERS.format(services=services), **dates,
    )  # fmt: skip
    return {lotl_file: _sign(lotl, lotl_signer, at=at), national_file: _sign(national, list_signer, at=at)}


def _service(pki: Pki, certificate: EidasCertificate, name: str, information: str) -> str:
    return _SERVICE.format(
        name=name, certificate=encode_base64(certificate.der), subject=_escaped(str(certificate.subject)),
        key_identifier=encode_base64(certificate.extensions.subject_key_identifier or b""), since=format_time(pki.not_before),
        information=information,
    )  # fmt: skip


def _sign(document: str, signer: Issued, *, at: datetime) -> bytes:
    """Put an enveloped XAdES signature at the end of the root element of a list in canonical form."""
    properties = _PROPERTIES.format(at=format_time(at), digest=_digest(signer.certificate.der))
    # Exclusive canonicalization declares a namespace in the outermost element that uses its prefix.
    lone_properties = (
        properties.replace("<xades:SignedProperties", f'<xades:SignedProperties xmlns:xades="{_XADES}"', 1)
        .replace("<ds:DigestMethod", f'<ds:DigestMethod xmlns:ds="{_DS}"')
        .replace("<ds:DigestValue", f'<ds:DigestValue xmlns:ds="{_DS}"')
    )
    canonical = document.replace(_ADDITIONAL, "", 1).replace("<add:MimeType", f"<add:MimeType{_ADDITIONAL}")

    information = _SIGNED_INFO.format(
        algorithm="ecdsa-sha256" if isinstance(signer.key, ec.EllipticCurvePrivateKey) else "rsa-sha256",
        document=_DIGEST.format(digest=_digest(canonical.encode())),
        properties=_DIGEST.format(digest=_digest(lone_properties.encode())),
    )
    lone_information = information.replace("<ds:SignedInfo", f'<ds:SignedInfo xmlns:ds="{_DS}"', 1)
    value = sign_bytes(signer.key, lone_information.encode(), "sha256")
    if isinstance(
        signer.key, ec.EllipticCurvePrivateKey
    ):  # XML Signature 1.1 section 6.4.3: both numbers, of full size
        size = (signer.key.key_size + 7) // 8
        value = b"".join(number.to_bytes(size, "big") for number in decode_dss_signature(value))
    signature = _SIGNATURE.format(
        information=information,
        value=encode_base64(value),
        certificate=encode_base64(signer.certificate.der),
        properties=properties,
    )
    body = document.removesuffix("</TrustServiceStatusList>")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}{signature}</TrustServiceStatusList>'.encode()


def _escaped(text: str) -> str:
    """Return character data as Canonical XML writes it."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\r", "&#xD;")


def _digest(data: bytes) -> str:
    return encode_base64(hashlib.sha256(data).digest())
