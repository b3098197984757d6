"""Time stamps: requests read, and tokens of a time-stamping authority written and signed.

Sources: RFC 3161 sections 2.4.1 and 2.4.2, RFC 5652 section 5 (SignedData), RFC 5816 (ESSCertIDv2).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType

from asn1crypto import cms, tsp
from asn1crypto import x509 as asn1_x509

from tppkit._clock import as_utc
from tppkit.certificates import der
from tppkit.testpki.certificate import Issued
from tppkit.testpki.pki import Pki
from tppkit.testpki.signing import sign_bytes, signature_algorithm

POLICY = "2.999.3161.1"  # an example arc (ITU-T X.660)
_DIGEST_SIZES: Mapping[str, int] = MappingProxyType({"sha256": 32, "sha384": 48, "sha512": 64})
MAX_REQUEST_BYTES = 4096
# PKIFailureInfo (RFC 3161 section 2.4.2).
_BAD_ALGORITHM, _BAD_DATA_FORMAT, _UNACCEPTED_POLICY = {"bad_alg"}, {"bad_data_format"}, {"unaccepted_policy"}


def answer_timestamp(pki: Pki, request: bytes, *, at: datetime, serial: int) -> bytes:
    """Answer a time-stamp request with a token or the reason why there is none, as DER of a TimeStampResp.

    Args:
        pki: The PKI, whose time-stamping authority answers.
        request: DER of the TimeStampReq.
        at: The time to stamp, aware.
        serial: The token's serial number.
    """
    if len(request) > MAX_REQUEST_BYTES:
        return _refuse(_BAD_DATA_FORMAT)
    try:
        asked = tsp.TimeStampReq.load(request, strict=True)
        imprint = asked["message_imprint"]
        hash_name, digest = imprint["hash_algorithm"]["algorithm"].native, imprint["hashed_message"].native
        policy, nonce, with_certificate = (asked[name].native for name in ("req_policy", "nonce", "cert_req"))
    except (ValueError, TypeError):
        return _refuse(_BAD_DATA_FORMAT)
    if _DIGEST_SIZES.get(hash_name) != len(digest):
        return _refuse(_BAD_ALGORITHM)
    if policy not in (None, POLICY):
        return _refuse(_UNACCEPTED_POLICY)
    info = tsp.TSTInfo({
        "version": "v1", "policy": POLICY, "message_imprint": imprint, "serial_number": serial,
        "gen_time": as_utc(at).replace(microsecond=0), "nonce": nonce,
    })  # fmt: skip
    token = _sign(info, pki.tsa, with_certificate=with_certificate)
    return der.write_sequence(tsp.PKIStatusInfo({"status": "granted"}).dump(), token.dump())


def _refuse(failure: set[str]) -> bytes:
    return der.write_sequence(tsp.PKIStatusInfo({"status": "rejection", "fail_info": failure}).dump())


def _sign(info: tsp.TSTInfo, tsa: Issued, *, with_certificate: bool) -> cms.ContentInfo:
    """Return a TimeStampToken: a CMS SignedData around a TSTInfo."""
    certificate = asn1_x509.Certificate.load(tsa.certificate.der)
    sha256 = {"algorithm": "sha256"}
    cert_id = {"cert_hash": hashlib.sha256(tsa.certificate.der).digest()}
    attributes = cms.CMSAttributes([
        {"type": "content_type", "values": ["tst_info"]},
        {"type": "message_digest", "values": [hashlib.sha256(info.dump()).digest()]},
        {"type": "signing_certificate_v2", "values": [{"certs": [cert_id]}]},
    ])  # fmt: skip
    signature = sign_bytes(tsa.key, attributes.dump(), "sha256")
    issuer = {"issuer": certificate.issuer, "serial_number": certificate.serial_number}
    signer = {
        "version": "v1", "sid": cms.SignerIdentifier("issuer_and_serial_number", issuer), "digest_algorithm": sha256,
        "signed_attrs": attributes, "signature_algorithm": signature_algorithm(tsa.key, "sha256"), "signature": signature,
    }  # fmt: skip
    signed = {
        "version": "v3", "digest_algorithms": [sha256], "encap_content_info": {"content_type": "tst_info", "content": info},
        "certificates": [cms.CertificateChoices("certificate", certificate)] if with_certificate else None,
        "signer_infos": [signer],
    }  # fmt: skip
    return cms.ContentInfo({"content_type": "signed_data", "content": signed})
