"""The trusted lists of a test PKI: a list of lists, and a national list that grants services to the issuing authorities.

The templates are in canonical form, so the signed bytes are the written bytes, and no XML library is needed.

Sources: ETSI TS 119 612 clause 5 and annex B, XML Signature 1.1, ETSI EN 319 132-1 (XAdES baseline B), Canonical XML.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from datetime import datetime, timedelta
from importlib.resources import files
from types import MappingProxyType

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
_DS, _XADES = "http://www.w3.org/2000/09/xmldsig#", "http://uri.etsi.org/01903/v1.3.2#"
_ADDITIONAL = ' xmlns:add="http://uri.etsi.org/02231/v2/additionaltypes#"'
_TEMPLATES: Mapping[str, str] = MappingProxyType({
    name: "".join(line.strip() for line in text.splitlines())
    for name, text in tomllib.loads(files("tppkit.testpki").joinpath("trusted_lists.toml").read_text("utf-8")).items()
})  # fmt: skip


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
    own = _write("pointer",
        location=_escaped(f"{pki.services_url}/{lotl_file}"), territory="EU", kind="EUlistofthelists",
        signer=encode_base64(lotl_signer.certificate.der),
    )  # fmt: skip
    other = _write("pointer",
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
    lotl = _write("list",
        territory="EU", kind="EUlistofthelists", approach="EUlistofthelists", rules="EUlistofthelists", pointers=own + other,
        providers="", **dates,
    )  # fmt: skip
    national = _write("list",
        territory=_TERRITORY, kind="EUgeneric", approach="EUappropriate", rules="EUcommon", pointers=own,
        providers=_write("providers", services=services), **dates,
    )  # fmt: skip
    return {lotl_file: _sign(lotl, lotl_signer, at=at), national_file: _sign(national, list_signer, at=at)}


def _write(template: str, **values: object) -> str:
    return _TEMPLATES[template].format(**values)


def _service(pki: Pki, certificate: EidasCertificate, name: str, information: str) -> str:
    return _write("service",
        name=name, certificate=encode_base64(certificate.der), subject=_escaped(str(certificate.subject)),
        key_identifier=encode_base64(certificate.extensions.subject_key_identifier or b""), since=format_time(pki.not_before),
        information=information,
    )  # fmt: skip


def _sign(document: str, signer: Issued, *, at: datetime) -> bytes:
    """Put an enveloped XAdES signature at the end of the root element of a list in canonical form."""
    properties = _write("properties", at=format_time(at), digest=_digest(signer.certificate.der))
    # Exclusive canonicalization declares a namespace in the outermost element that uses its prefix.
    lone_properties = (
        properties.replace("<xades:SignedProperties", f'<xades:SignedProperties xmlns:xades="{_XADES}"', 1)
        .replace("<ds:DigestMethod", f'<ds:DigestMethod xmlns:ds="{_DS}"')
        .replace("<ds:DigestValue", f'<ds:DigestValue xmlns:ds="{_DS}"')
    )
    canonical = document.replace(_ADDITIONAL, "", 1).replace("<add:MimeType", f"<add:MimeType{_ADDITIONAL}")

    information = _write(
        "signed_info",
        algorithm="ecdsa-sha256" if isinstance(signer.key, ec.EllipticCurvePrivateKey) else "rsa-sha256",
        document=_write("digest", digest=_digest(canonical.encode())),
        properties=_write("digest", digest=_digest(lone_properties.encode())),
    )
    lone_information = information.replace("<ds:SignedInfo", f'<ds:SignedInfo xmlns:ds="{_DS}"', 1)
    value = sign_bytes(signer.key, lone_information.encode(), "sha256")
    if isinstance(
        signer.key, ec.EllipticCurvePrivateKey
    ):  # XML Signature 1.1 section 6.4.3: both numbers, of full size
        size = (signer.key.key_size + 7) // 8
        value = b"".join(number.to_bytes(size, "big") for number in decode_dss_signature(value))
    signature = _write(
        "signature",
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
