"""What a bank's or provider's server mounts in front of its handlers: who is calling, and did they seal this."""

from tppkit.web.authorize import Authorization, authorize, require_authorized
from tppkit.web.message import raw_target, read_message
from tppkit.web.peer import PeerCertificate, QwacPolicy, peer_certificate

__all__ = [
    "Authorization", "PeerCertificate", "QwacPolicy", "authorize", "peer_certificate", "raw_target", "read_message",
    "require_authorized",
]  # fmt: skip
