"""Callbacks and login GETs of the earlier interface: verify what the service signs.

receiver = CallbackReceiver([CallbackAddress("https://tpp.example/cb/", CallbackKind.ACCESS)], keys=[key])
verified = verify_callback(received, at=utc_now(), receiver=receiver)
"""

from tppkit.callbacks.addresses import CallbackAddress, CallbackKind
from tppkit.callbacks.events import CallbackEvent
from tppkit.callbacks.explain import CallbackExplanation, SignedCandidate, explain_callback
from tppkit.callbacks.keys import CallbackKey, load_callback_key
from tppkit.callbacks.message import ReceivedCallback, RequestIds, signed_bytes
from tppkit.callbacks.peers import parse_networks, verify_peer
from tppkit.callbacks.sign import make_signature, sign_callback
from tppkit.callbacks.verify import CallbackReceiver, VerifiedCallback, verify_callback

__all__ = [
    "CallbackAddress", "CallbackEvent", "CallbackExplanation", "CallbackKey", "CallbackKind", "CallbackReceiver",
    "ReceivedCallback", "RequestIds", "SignedCandidate", "VerifiedCallback", "explain_callback", "load_callback_key",
    "make_signature", "parse_networks", "sign_callback", "signed_bytes", "verify_callback", "verify_peer",
]  # fmt: skip
