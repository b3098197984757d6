"""Test certificates as production profiles have them: in memory, or as files.

pki = make_pki(at=utc_now(), provider=make_provider(roles=["PSP_PI"]))
write_pki(pki, Path("certs"))
"""

from tppkit.testpki.authority import DEFAULT_DAYS, Issued, Pki, make_pki
from tppkit.testpki.files import certificate_pem, key_pem, write_pki
from tppkit.testpki.keys import KEY_KINDS, KeySource
from tppkit.testpki.profiles import Provider, make_provider

__all__ = [
    "DEFAULT_DAYS", "KEY_KINDS", "Issued", "KeySource", "Pki", "Provider", "certificate_pem", "key_pem", "make_pki", "make_provider",
    "write_pki",
]  # fmt: skip
