"""The bank to develop against: answers as the real service would, over real sockets.

with run_sandbox(SandboxSettings(Path("sandbox"))) as server:
    server.addresses.psd2_url
"""

from tppkit._extras import missing_extra

try:
    from tppkit.sandbox.sandbox import SandboxHosts, SandboxSettings
    from tppkit.sandbox.server import Addresses, SandboxServer, run_sandbox
except ImportError as e:
    if e.name is not None and e.name.partition(".")[0] == "tppkit":
        raise
    raise missing_extra("sandbox", e) from e

__all__ = ["Addresses", "SandboxHosts", "SandboxServer", "SandboxSettings", "run_sandbox"]
