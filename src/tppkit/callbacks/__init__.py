"""Callbacks and login GETs of the legacy interface: verify what the service signs, and receive it once.

receiver = CallbackReceiver([CallbackAddress("https://tpp.example/cb/", CallbackKind.ACCESS)], keys=[key])
verified = verify_callback(received, at=utc_now(), receiver=receiver)

inbox = Inbox(receiver, InboxStore("sqlite:///inbox.sqlite"))
receipt = inbox.handle(received, handler, at=utc_now())
"""

from tppkit._networks import parse_networks, verify_peer
from tppkit.callbacks.addresses import CallbackAddress, CallbackKind
from tppkit.callbacks.explain import CallbackExplanation, SignedCandidate, explain_callback
from tppkit.callbacks.inbox import AsyncInbox, Inbox, Receipt, Unhandled, handler_by_kind
from tppkit.callbacks.settings import NO_TIME, InboxSettings, NoTime, TimeWindow, operated_at
from tppkit.callbacks.signature import CallbackKey, CallbackRejected, RequestIds, load_callback_key, sign_callback
from tppkit.callbacks.verify import CallbackReceiver, VerifiedCallback, verify_callback

__all__ = [
    "NO_TIME", "AsyncInbox", "CallbackAddress", "CallbackExplanation", "CallbackKey", "CallbackKind", "CallbackReceiver",
    "CallbackRejected", "Inbox", "InboxSettings", "NoTime", "Receipt", "RequestIds", "SignedCandidate", "TimeWindow", "Unhandled",
    "VerifiedCallback", "explain_callback", "handler_by_kind", "load_callback_key", "operated_at", "parse_networks", "sign_callback",
    "verify_callback", "verify_peer",
]  # fmt: skip
