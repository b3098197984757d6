"""HTTP message signatures as defined by the drafts and RFCs. `tppkit.seals` has their use for PSD2."""

from tppkit.httpsig.algorithms import Algorithm, make_verifiers
from tppkit.httpsig.cavage import SignatureParameters
from tppkit.httpsig.digest import make_digest, verify_digest
from tppkit.httpsig.jws import VerifiedJws, verify_detached_jws
from tppkit.httpsig.rfc9421 import VerifiedSignature, verify_message_signature
from tppkit.httpsig.signers.functions import CallableSigner
from tppkit.httpsig.signers.kms import KmsSigner
from tppkit.httpsig.signers.local import KeyFile, KeySigner, load_private_key, parse_pkcs12
from tppkit.httpsig.signers.pkcs11 import Pkcs11Signer
from tppkit.httpsig.signers.protocol import Signer
from tppkit.httpsig.signing_string import make_signing_string, message_components
from tppkit.message import Message

__all__ = [
    "Algorithm", "CallableSigner", "KeyFile", "KeySigner", "KmsSigner", "Message", "Pkcs11Signer", "SignatureParameters", "Signer",
    "VerifiedJws", "VerifiedSignature", "load_private_key", "make_digest", "make_signing_string", "make_verifiers", "message_components",
    "parse_pkcs12", "verify_detached_jws", "verify_digest", "verify_message_signature",
]  # fmt: skip
