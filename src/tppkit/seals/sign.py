"""Seal a request: add Digest, Signature and the seal certificate."""

from __future__ import annotations

from binascii import b2a_base64

from tppkit._encoding import encode_base64
from tppkit.certificates import EidasCertificate
from tppkit.errors import ConfigurationError, LocalProtocolError, SignatureRejected
from tppkit.httpsig.algorithms import make_verifiers, verify_signature
from tppkit.httpsig.cavage import make_signing_string
from tppkit.httpsig.digest import make_digest
from tppkit.httpsig.message import Message, message_components
from tppkit.httpsig.signers import Signer
from tppkit.seals.key_id import make_key_id
from tppkit.seals.profiles import PSD2_V1, SealProfile

_PROBE = b"tppkit: does this signer sign for this certificate?"


class Seal:
    """A QSealC and the signer of its key, made ready for many requests.

    Args:
        certificate: the QSealC.
        signer: signs with the certificate's private key; asked for one signature here to see that it does.
        profile: the bank's dialect.

    Raises:
        ConfigurationError: `seal.key-mismatch`, the signer's signature does not verify with the certificate's key.
        FormatError: `key.unsupported`, `key.weak`.
    """

    def __init__(self, certificate: EidasCertificate, signer: Signer, *, profile: SealProfile = PSD2_V1) -> None:
        if signer.public_key != certificate.public_key:
            raise ConfigurationError("seal.key-mismatch", f"the signer's key is not the key of {certificate.subject}")
        verifiers = make_verifiers(certificate.public_key, pss_only=certificate.key.type == "rsa-pss")
        try:
            verify_signature(verifiers, signer.algorithm.name, signer.sign(_PROBE), _PROBE)
        except SignatureRejected as e:
            raise ConfigurationError(
                "seal.key-mismatch", f"the signer does not sign for {certificate.subject}: {e.message}"
            ) from e
        self.certificate = certificate
        self.signer = signer
        self._sign = signer.sign
        self._covered = profile.covered
        self.profile = profile
        self._written = frozenset({"digest", "signature", profile.certificate_header.lower()})
        self._watched = self._written.union(profile.covered)
        self._certificate_header = (profile.certificate_header, encode_base64(certificate.der))
        self._parameters = (
            f'keyId="{make_key_id(certificate)}",algorithm="{signer.algorithm.name}",'
            f'headers="{" ".join(profile.covered)}",signature="'
        )


_new = tuple.__new__  # what a named tuple's own constructor calls, without the call around it


def sign_request(message: Message, *, seal: Seal) -> Message:
    """Seal a request.

    Args:
        message: method, target, body and every header that the profile covers besides Digest (for `psd2-v1`:
            X-Request-ID), as they will be sent.
        seal: certificate and signer.

    Returns:
        The message with Digest, Signature and the certificate's header added at the end.

    Raises:
        LocalProtocolError: `seal.header-present`, the message carries one of these already, or twice a covered one.
        SignatureRejected: `signature.header-absent`, a covered header is missing.
        FormatError: `header.control-character`, `message.malformed`.

    Source: PSD2 document, part A section 4; draft-cavage-http-signatures-10.
    """
    values, doubled = message_components(message, only=seal._watched)
    if doubled or not seal._written.isdisjoint(values):
        names = ", ".join(sorted({*doubled, *seal._written.intersection(values)}))
        raise LocalProtocolError(
            "seal.header-present", f"{names}: a header that sealing writes, or twice one it covers"
        )
    digest = values["digest"] = make_digest(message.body, algorithm=seal.profile.digest_algorithm)
    signature = seal._sign(make_signing_string(seal._covered, values))
    text = b2a_base64(signature, newline=False).decode("ascii")
    written = (("Digest", digest), ("Signature", f'{seal._parameters}{text}"'), seal._certificate_header)
    return _new(Message, (message.method, message.target, message.headers + written, message.body))
