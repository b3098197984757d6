"""Signers behind one protocol: a key in memory, a device, a service, or functions of the caller.

A signer has a public key and one algorithm. `sign` blocks; `sign_async` does not block an event loop. A signer that has only one
of the two raises `signer.sync-only` or `signer.async-only` for the other.
"""

from tppkit.httpsig.signers.functions import CallableSigner
from tppkit.httpsig.signers.kms import KmsSigner
from tppkit.httpsig.signers.local import KeyFile, KeySigner, load_pkcs12, load_private_key
from tppkit.httpsig.signers.pkcs11 import Pkcs11Signer
from tppkit.httpsig.signers.protocol import Signer, choose_algorithm

__all__ = [
    "CallableSigner", "KeyFile", "KeySigner", "KmsSigner", "Pkcs11Signer", "Signer", "choose_algorithm", "load_pkcs12",
    "load_private_key",
]  # fmt: skip
