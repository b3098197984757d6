"""Who signs: a key in memory, a device, a service, a function of the caller's. All fit one protocol.

A signer knows its public key and its one algorithm. `sign` blocks; `sign_async` does not hold up an event loop. A signer that
has only one of the two says so with `signer.sync-only` or `signer.async-only`.
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
