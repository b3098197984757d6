"""A bank for development: answers like the real service, over real sockets or in process.

with run_sandbox(SandboxSettings(Path("sandbox"))) as server:
    server.addresses.psd2_url

with Sandbox() as sandbox:
    sandbox.bank.client(roles=["PSP_AI"])
    sandbox.gateway.client()
"""

from typing import TYPE_CHECKING, Any

from tppkit._extras import needs_extra

with needs_extra("sandbox"):
    from tppkit.sandbox.conformance import BrokenRule, Report, Rule
    from tppkit.sandbox.sandbox import SandboxSettings
    from tppkit.sandbox.server import Addresses, SandboxServer, run_sandbox

if TYPE_CHECKING:
    from tppkit.sandbox.in_process import Gateway, Sandbox

__all__ = [
    "Addresses", "BrokenRule", "Gateway", "Report", "Rule", "Sandbox", "SandboxServer", "SandboxSettings", "run_sandbox",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in ("Gateway", "Sandbox"):
        raise AttributeError(f"module {__name__} has no attribute {name}")
    # Imported late: their clients need an HTTP library, which a served sandbox does not.
    from tppkit.sandbox import in_process

    return getattr(in_process, name)
