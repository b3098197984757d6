"""Whether a certificate is trusted at a time.

paths = PathVerifier(load_anchors(Path("pki")))
paths.verify(certificate, at=utc_now())

material = load_trust(trusted_lists=Path("lists"), now=utc_now())
check_trust(certificate, as_=Use.QSEALC, at=utc_now(), material=material).findings
"""

from tppkit.trust.anchors import Anchors, load_anchors, make_anchors
from tppkit.trust.fetching import Fetch
from tppkit.trust.material import TrustMaterial, TrustReport, check_trust, load_trust
from tppkit.trust.path.verifier import PathVerifier, TrustedPath
from tppkit.trust.path.window import Window
from tppkit.trust.revocation.answers import Answer, Source, State
from tppkit.trust.revocation.checker import RevocationChecker
from tppkit.trust.revocation.crl import verify_crl
from tppkit.trust.revocation.ocsp import verify_ocsp
from tppkit.trust.revocation.ocsp_response import OcspResponse, make_ocsp_request, parse_ocsp_response
from tppkit.trust.revocation.outcome import CertificateStatus, RevocationPolicy, RevocationScope
from tppkit.trust.revocation.retained import RevocationEvidence, load_revocation, read_revocation
from tppkit.trust.revocation.revocation_list import Crl, parse_crl
from tppkit.trust.trusted_list.folder import load_trusted_lists
from tppkit.trust.trusted_list.lists import QualifiedStatus, TrustedLists
from tppkit.trust.trusted_list.model import TrustedList
from tppkit.trust.trusted_list.qualified_status import Judgement, Purpose
from tppkit.trust.trusted_list.reader import verify_trusted_list

__all__ = [
    "Anchors", "Answer", "CertificateStatus", "Crl", "Fetch", "Judgement", "OcspResponse", "PathVerifier", "Purpose",
    "QualifiedStatus", "RevocationChecker", "RevocationEvidence", "RevocationPolicy", "RevocationScope", "Source",
    "State", "TrustMaterial", "TrustReport", "TrustedList", "TrustedLists", "TrustedPath", "Window", "check_trust",
    "load_anchors", "load_revocation", "load_trust", "load_trusted_lists", "make_anchors", "make_ocsp_request",
    "parse_crl", "parse_ocsp_response", "read_revocation", "verify_crl", "verify_ocsp", "verify_trusted_list",
]  # fmt: skip
