"""Whether a certificate is believed at a time.

paths = PathVerifier(load_anchors(Path("pki")))
paths.verify(certificate, at=utc_now())
"""

from tppkit.trust.anchors import Anchors, load_anchors, make_anchors
from tppkit.trust.path import PathVerifier, TrustedPath

__all__ = ["Anchors", "PathVerifier", "TrustedPath", "load_anchors", "make_anchors"]
