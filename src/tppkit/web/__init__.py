"""What a bank's or provider's server mounts in front of its handlers: who is calling, and did they seal this."""

from tppkit.web.message import read_message
from tppkit.web.peer import PeerCertificate, QwacPolicy, peer_certificate

__all__ = ["PeerCertificate", "QwacPolicy", "peer_certificate", "read_message"]
