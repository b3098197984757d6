"""HTTP message signatures as defined by the drafts and RFCs. `tppkit.seals` has their use for PSD2."""

from tppkit.httpsig.algorithms import ALGORITHMS, Algorithm, make_verifiers
from tppkit.httpsig.cavage import SignatureParameters, parse_signature_header
from tppkit.httpsig.digest import make_digest, parse_digest, verify_digest
from tppkit.httpsig.jws import VerifiedJws, verify_detached_jws
from tppkit.httpsig.rfc9421 import VerifiedSignature, verify_message_signature
from tppkit.httpsig.signers import (
    CallableSigner,
    KeyFile,
    KeySigner,
    KmsSigner,
    Pkcs11Signer,
    Signer,
    load_pkcs12,
    load_private_key,
)
from tppkit.httpsig.signing_string import make_signing_string, message_components
from tppkit.message import Message

__all__ = [
    "ALGORITHMS", "Algorithm", "CallableSigner", "KeyFile", "KeySigner", "KmsSigner", "Message", "Pkcs11Signer",
    "SignatureParameters", "Signer", "VerifiedJws", "VerifiedSignature", "load_pkcs12", "load_private_key", "make_digest",
    "make_signing_string", "make_verifiers", "message_components", "parse_digest", "parse_signature_header",
    "verify_detached_jws", "verify_digest", "verify_message_signature",
]  # fmt: skip
