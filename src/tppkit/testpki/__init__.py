"""Test certificates with the profiles of production, in memory or as files.

pki = make_pki(at=utc_now(), provider=make_provider(roles=["PSP_PI"]))
write_pki(pki, Path("certs"))
"""

from tppkit.testpki.certificate import Issued
from tppkit.testpki.files import write_pki
from tppkit.testpki.folder import PkiFolder, open_pki
from tppkit.testpki.keys import KEY_KINDS, SEAL_KEY_KINDS, KeySource
from tppkit.testpki.pem import certificate_pem, key_pem
from tppkit.testpki.pki import DEFAULT_DAYS, Pki, make_pki
from tppkit.testpki.provider import Provider, make_provider

__all__ = [
    "DEFAULT_DAYS", "KEY_KINDS", "SEAL_KEY_KINDS", "Issued", "KeySource", "Pki", "PkiFolder", "Provider", "certificate_pem",
    "key_pem", "make_pki", "make_provider", "open_pki", "write_pki",
]  # fmt: skip
