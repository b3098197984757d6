"""Whether a certificate is believed at a time.

paths = PathVerifier(load_anchors(Path("pki")))
paths.verify(certificate, at=utc_now())

lists = load_trusted_lists(Path("lists"))
lists.status(certificate, at=utc_now()).qualified_for
"""

from tppkit.trust.anchors import Anchors, load_anchors, make_anchors
from tppkit.trust.path import PathVerifier, TrustedPath
from tppkit.trust.qualified_status import Judgement, Purpose
from tppkit.trust.trusted_list import TrustedList
from tppkit.trust.trusted_list_folder import load_trusted_lists
from tppkit.trust.trusted_list_reader import verify_trusted_list
from tppkit.trust.trusted_lists import QualifiedStatus, TrustedLists

__all__ = [
    "Anchors", "Judgement", "PathVerifier", "Purpose", "QualifiedStatus", "TrustedList", "TrustedLists", "TrustedPath", "load_anchors",
    "load_trusted_lists", "make_anchors", "verify_trusted_list",
]  # fmt: skip
