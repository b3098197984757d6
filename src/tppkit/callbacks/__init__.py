"""Callbacks and login GETs of the legacy interface: verify what the service signs, and receive it once.

receiver = CallbackReceiver([CallbackAddress("https://tpp.example/cb/", CallbackKind.ACCESS)], keys=[key])
verified = verify_callback(received, at=utc_now(), receiver=receiver)

inbox = Inbox(receiver, InboxStore("sqlite:///inbox.sqlite"))
receipt = inbox.handle(received, handler, at=utc_now())
"""

from tppkit._networks import parse_networks, verify_peer
from tppkit.callbacks.addresses import CallbackAddress, CallbackKind
from tppkit.callbacks.explain import CallbackExplanation, SignedCandidate, explain_callback
from tppkit.callbacks.inbox import Inbox, Receipt, Unhandled, handler_by_kind
from tppkit.callbacks.inbox_async import AsyncInbox
from tppkit.callbacks.inbox_settings import NO_TIME, InboxSettings, NoTime, TimeWindow, operated_at
from tppkit.callbacks.keys import CallbackKey, load_callback_key
from tppkit.callbacks.sign import make_signature, sign_callback
from tppkit.callbacks.signed_bytes import CallbackRejected, RequestIds, signed_bytes
from tppkit.callbacks.verify import CallbackEvent, CallbackReceiver, VerifiedCallback, verify_callback
from tppkit.inbox import Outcome, Retention, Retries, Worked

__all__ = [
    "NO_TIME", "AsyncInbox", "CallbackAddress", "CallbackEvent", "CallbackExplanation", "CallbackKey", "CallbackKind",
    "CallbackReceiver", "CallbackRejected", "Inbox", "InboxSettings", "NoTime", "Outcome", "Receipt", "RequestIds", "Retention",
    "Retries", "SignedCandidate", "TimeWindow", "Unhandled", "VerifiedCallback", "Worked", "explain_callback", "handler_by_kind",
    "load_callback_key", "make_signature", "operated_at", "parse_networks", "sign_callback", "signed_bytes", "verify_callback",
    "verify_peer",
]  # fmt: skip
