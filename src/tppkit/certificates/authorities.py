"""Competent authorities by NCAId, for display and defaults. The list is informative: a missing authority is not an error.

Source: ETSI TS 119 495 V1.2.1 annex D, as copied by two public implementations (creditkudos/eidas, zlint). Production
certificates from Croatia contain HR-HNB instead of HR-CNB.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

AUTHORITIES: Mapping[str, str] = MappingProxyType(
    {
        "AT-FMA": "Austria Financial Market Authority",
        "BE-NBB": "National Bank of Belgium",
        "BG-BNB": "Bulgarian National Bank",
        "CY-CBC": "Central Bank of Cyprus",
        "CZ-CNB": "Czech National Bank",
        "DE-BAFIN": "Federal Financial Supervisory Authority",
        "DK-DFSA": "Danish Financial Supervisory Authority",
        "EE-FI": "Estonia Financial Supervisory Authority",
        "ES-BE": "Bank of Spain",
        "FI-FINFSA": "Finnish Financial Supervisory Authority",
        "FR-ACPR": "Prudential Supervisory and Resolution Authority",
        "GB-FCA": "Financial Conduct Authority",
        "GR-BOG": "Bank of Greece",
        "HR-CNB": "Croatian National Bank",
        "HR-HNB": "Croatian National Bank",
        "HU-CBH": "Central Bank of Hungary",
        "IE-CBI": "Central Bank of Ireland",
        "IS-FME": "Financial Supervisory Authority",
        "IT-BI": "Bank of Italy",
        "LI-FMA": "Financial Market Authority Liechtenstein",
        "LT-BL": "Bank of Lithuania",
        "LU-CSSF": "Commission for the Supervision of Financial Sector",
        "LV-FCMC": "Financial and Capital Markets Commission",
        "MT-MFSA": "Malta Financial Services Authority",
        "NL-DNB": "The Netherlands Bank",
        "NO-FSA": "The Financial Supervisory Authority of Norway",
        "PL-PFSA": "Polish Financial Supervision Authority",
        "PT-BP": "Bank of Portugal",
        "RO-NBR": "National bank of Romania",
        "SE-FINA": "Swedish Financial Supervision Authority",
        "SI-BS": "Bank of Slovenia",
        "SK-NBS": "National Bank of Slovakia",
    }
)
