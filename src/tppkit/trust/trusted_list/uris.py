"""Names and identifiers of trusted lists, one a line.

Sources: ETSI TS 119 612 clauses 5.3 to 5.5 and annex D (types, statuses, additional service information, qualifiers), and the
lists that the member states publish.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType

TSL = "{http://uri.etsi.org/02231/v2#}"
ADDITIONAL_TYPES = "{http://uri.etsi.org/02231/v2/additionaltypes#}"
QUALIFICATIONS = "{http://uri.etsi.org/TrstSvc/SvcInfoExt/eSigDir-1999-93-EC-TrustedList/#}"

LIST_OF_LISTS = "http://uri.etsi.org/TrstSvc/TrustedList/TSLType/EUlistofthelists"
NATIONAL_LIST = "http://uri.etsi.org/TrstSvc/TrustedList/TSLType/EUgeneric"
XML_LIST_MEDIA_TYPE = "application/vnd.etsi.tsl+xml"

QUALIFIED_CA = "http://uri.etsi.org/TrstSvc/Svctype/CA/QC"

# From this moment Regulation (EU) No 910/2014 applies (article 52). Nothing earlier is qualified here: there were no qualified
# certificates for seals and websites, and PSD2 is of 2018.
EIDAS_STARTS = datetime(2016, 7, 1, tzinfo=UTC)

# The last segment of a status names it: the same names stand under several stems, by the edition of the standard.
STATUS_STEMS = (
    "http://uri.etsi.org/TrstSvc/TrustedList/Svcstatus/",
    "http://uri.etsi.org/TrstSvc/eSigDir-1999-93-EC-TrustedList/Svcstatus/",
)
GRANTED = "granted"

_INFORMATION = "http://uri.etsi.org/TrstSvc/TrustedList/SvcInfoExt/"
ROOT_CA_QC = f"{_INFORMATION}RootCA-QC"
# What a service issues qualified certificates for; the names are those of the QcType statement.
SERVICE_PURPOSES: Mapping[str, str] = MappingProxyType(
    {
        f"{_INFORMATION}ForeSignatures": "esign",
        f"{_INFORMATION}ForeSeals": "eseal",
        f"{_INFORMATION}ForWebSiteAuthentication": "web",
    }
)

QUALIFIER_STEMS = (_INFORMATION, "http://uri.etsi.org/TrstSvc/eSigDir-1999-93-EC-TrustedList/SvcInfoExt/")
QUALIFIED_BY_LIST = "QCStatement"
NOT_QUALIFIED = "NotQualified"
PURPOSE_QUALIFIERS: Mapping[str, str] = MappingProxyType(
    {"QCForESig": "esign", "QCForESeal": "eseal", "QCForWSA": "web"}
)
WITH_DEVICE = frozenset({"QCWithQSCD", "QCWithSSCD", "QCQSCDManagedOnBehalf"})
WITHOUT_DEVICE = frozenset({"QCNoQSCD", "QCNoSSCD"})
DEVICE_AS_IN_CERTIFICATE = frozenset({"QCQSCDStatusAsInCert", "QCSSCDStatusAsInCert"})

# Lists use these codes where ISO 3166 and certificates have the other (TS 119 612 clause 5.3.10).
TERRITORIES_OF_COUNTRIES: Mapping[str, str] = MappingProxyType({"GR": "EL", "GB": "UK"})


def status_name(uri: str) -> str:
    """The last segment of a status under a known stem (`granted`), else the whole URI."""
    return _after(uri, STATUS_STEMS)


def qualifier_name(uri: str) -> str:
    """The last segment of a qualifier under a known stem (`QCForWSA`), else the whole URI."""
    return _after(uri, QUALIFIER_STEMS)


def _after(uri: str, stems: tuple[str, ...]) -> str:
    return next((uri[len(stem) :] for stem in stems if uri.startswith(stem)), uri)
