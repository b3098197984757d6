"""Seals of providers on requests: the use of HTTP signatures in PSD2.

sealed = sign_request(message, seal=Seal(certificate, KeySigner(key)))
verified = verify_request(received, qwac=qwac, at=utc_now(), policy=SealPolicy(PathVerifier(anchors)))
"""

from tppkit.httpsig import KeySigner, Message, load_private_key
from tppkit.message import Answer
from tppkit.seals.answers import (
    PreparedAnswer,
    VerifiedAnswer,
    prepare_answer,
    sign_answer,
    sign_answer_async,
    verify_answer,
)
from tppkit.seals.certificate_header import CertificateForm
from tppkit.seals.key_id import KeyIdForm, KeyIdStyle, Radix
from tppkit.seals.policy import Paths, SealPolicy
from tppkit.seals.profile import DigestOf, EmptyBody, FieldOrder, Format, SealProfile
from tppkit.seals.profiles import ANSWER_PROFILES, PROFILES, load_profile, parse_profile
from tppkit.seals.seal import Seal
from tppkit.seals.sign import PreparedRequest, SentRequest, prepare_request, sign_request, sign_request_async
from tppkit.seals.verified import VerifiedHead, VerifiedRequest
from tppkit.seals.verify import verify_request, verify_request_head

__all__ = [
    "ANSWER_PROFILES", "PROFILES", "Answer", "CertificateForm", "DigestOf", "EmptyBody", "FieldOrder", "Format", "KeyIdForm",
    "KeyIdStyle", "KeySigner", "Message", "Paths", "PreparedAnswer", "PreparedRequest", "Radix", "Seal", "SealPolicy",
    "SealProfile", "SentRequest", "VerifiedAnswer", "VerifiedHead", "VerifiedRequest", "load_private_key", "load_profile",
    "parse_profile", "prepare_answer", "prepare_request", "sign_answer", "sign_answer_async", "sign_request", "sign_request_async",
    "verify_answer", "verify_request", "verify_request_head",
]  # fmt: skip
