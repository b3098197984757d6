"""The header with the seal certificate, in the encodings that banks use."""

from __future__ import annotations

from enum import Enum

from tppkit._encoding import decode_base64, encode_base64
from tppkit.certificates import EidasCertificate
from tppkit.errors import FormatError

MAX_CERTIFICATE_HEADER = 16 * 1024

_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
_WHITE_SPACE = str.maketrans("", "", " \t\r\n")


class CertificateForm(Enum):
    """The encoding of a certificate in a header."""

    DER = "base64 of DER"
    PEM = "PEM without its line breaks, which are not valid in a header"
    BASE64_PEM = "base64 of PEM"


def write_certificate(certificate: EidasCertificate, form: CertificateForm) -> str:
    """Return the value of the header."""
    encoded = encode_base64(certificate.der)
    if form is CertificateForm.DER:
        return encoded
    if form is CertificateForm.PEM:
        return f"{_BEGIN}{encoded}{_END}"
    lines = [encoded[start : start + 64] for start in range(0, len(encoded), 64)]
    return encode_base64("\n".join([_BEGIN, *lines, _END, ""]).encode("ascii"))


def read_certificate(value: str, form: CertificateForm) -> EidasCertificate:
    """Parse the certificate in a header.

    Args:
        value: as received, at most 16,384 characters.
        form: the encoding of the dialect; others are rejected.

    Raises:
        FormatError: `certificate.malformed`, `certificate.too-large`, `base64.*`, `der.*`.
    """
    if len(value) > MAX_CERTIFICATE_HEADER:
        raise FormatError("certificate.too-large", f"a certificate header of {len(value)} characters is too long")
    what = "the certificate header"
    if form is CertificateForm.DER:
        return EidasCertificate.from_der(decode_base64(value, what=what))
    text = (value if form is CertificateForm.PEM else decode_base64(value, what=what).decode("latin-1")).strip(
        " \t\r\n"
    )
    if not (text.startswith(_BEGIN) and text.endswith(_END) and len(text) > len(_BEGIN) + len(_END)):
        raise FormatError("certificate.malformed", f"the certificate header is not {form.value}")
    encoded = text[len(_BEGIN) : -len(_END)].translate(_WHITE_SPACE)
    return EidasCertificate.from_der(decode_base64(encoded, what=what))
