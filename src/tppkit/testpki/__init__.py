"""Test certificates with the profiles of production, in memory or as files.

pki = make_pki(at=utc_now(), provider=make_provider(roles=["PSP_PI"]))
write_pki(pki, Path("certs"))
"""

from tppkit.testpki.certificate import Issued
from tppkit.testpki.files import write_pki
from tppkit.testpki.pem import certificate_pem, key_pem
from tppkit.testpki.pki import Pki, make_pki
from tppkit.testpki.provider import Provider, make_provider

__all__ = ["Issued", "Pki", "Provider", "certificate_pem", "key_pem", "make_pki", "make_provider", "write_pki"]
