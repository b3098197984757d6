"""Whether a certificate is trusted at a time.

paths = PathVerifier(load_anchors(Path("pki")))
paths.verify(certificate, at=utc_now())

material = load_trust(trusted_lists=Path("lists"))
check_trust(certificate, as_=Use.QSEALC, at=utc_now(), material=material).findings
"""

from tppkit.trust.anchors import Anchors, load_anchors, make_anchors
from tppkit.trust.fetching import Fetch
from tppkit.trust.material import TrustMaterial, check_trust, load_trust
from tppkit.trust.path.verifier import PathVerifier, TrustedPath
from tppkit.trust.path.window import Window
from tppkit.trust.reload import Reloadable, Reloader
from tppkit.trust.report import TrustReport
from tppkit.trust.revocation.answers import RevocationAnswer, RevocationSource, State
from tppkit.trust.revocation.checker import RevocationChecker
from tppkit.trust.revocation.outcome import CertificateStatus, RevocationPolicy, RevocationScope
from tppkit.trust.revocation.retained import RevocationEvidence, load_revocation, parse_revocation
from tppkit.trust.trusted_list.folder import load_trusted_lists
from tppkit.trust.trusted_list.lists import QualifiedStatus, TrustedLists
from tppkit.trust.trusted_list.qualified_status import Purpose

__all__ = [
    "Anchors", "CertificateStatus", "Fetch", "PathVerifier", "Purpose", "QualifiedStatus", "Reloadable", "Reloader",
    "RevocationAnswer", "RevocationChecker", "RevocationEvidence", "RevocationPolicy", "RevocationScope", "RevocationSource", "State",
    "TrustMaterial", "TrustReport", "TrustedLists", "TrustedPath", "Window", "check_trust", "load_anchors", "load_revocation",
    "load_trust", "load_trusted_lists", "make_anchors", "parse_revocation",
]  # fmt: skip
