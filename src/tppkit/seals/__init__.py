"""What PSD2 makes of HTTP signatures: a provider's seal on a request.

sealed = sign_request(message, seal=Seal(certificate, KeySigner(key)))
verified = verify_request(received, qwac=qwac, at=utc_now(), policy=SealPolicy(PathVerifier(anchors)))
"""

from tppkit.httpsig.message import Message
from tppkit.httpsig.signers import KeySigner, Signer, load_private_key
from tppkit.seals.profiles import PROFILES, PSD2_V1, SealProfile
from tppkit.seals.sign import Seal, sign_request
from tppkit.seals.verify import SealPolicy, VerifiedRequest, verify_request

__all__ = [
    "PROFILES", "PSD2_V1", "KeySigner", "Message", "Seal", "SealPolicy", "SealProfile", "Signer", "VerifiedRequest",
    "load_private_key", "sign_request", "verify_request",
]  # fmt: skip
