"""Answers about revocation that were kept in files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tppkit._files import FilePath, as_path, read_bounded
from tppkit.errors import FormatError
from tppkit.trust.revocation.ocsp_response import OcspResponse, parse_ocsp_response
from tppkit.trust.revocation.revocation_list import MAX_CRL_BYTES, Crl, parse_crls


@dataclass(frozen=True, slots=True)
class RevocationEvidence:
    """Answers about revocation; nothing of them is proven yet.

        evidence = load_revocation(["issuing.crl", "leaf.ors"])
        RevocationChecker(evidence=evidence)
        evidence + parse_revocation(data, name="newer.crl")

    Attributes:
        crls: in any order.
        ocsp: in any order.
    """

    crls: tuple[Crl, ...] = ()
    ocsp: tuple[OcspResponse, ...] = ()

    def __add__(self, other: RevocationEvidence) -> RevocationEvidence:
        """Both, each answer once."""
        crls = {crl.sha256: crl for crl in (*self.crls, *other.crls)}
        responses = {response.sha256: response for response in (*self.ocsp, *other.ocsp)}
        return RevocationEvidence(tuple(crls.values()), tuple(responses.values()))


def load_revocation(paths: Iterable[FilePath]) -> RevocationEvidence:
    """Read files of which each is a CRL (DER), CRLs (PEM) or an OCSP response (DER).

        checker = RevocationChecker(evidence=load_revocation(["issuing.crl", "root.crl"]))

    Raises:
        FormatError: `file.unreadable`, `file.too-large`; `revocation.unreadable`, a file is neither.
    """
    evidence = RevocationEvidence()
    for path in paths:
        evidence += parse_revocation(read_bounded(path, max_bytes=MAX_CRL_BYTES), name=as_path(path).name)
    return evidence


def parse_revocation(data: bytes, *, name: str) -> RevocationEvidence:
    """Read a CRL (DER), every CRL of a PEM file, or an OCSP response (DER).

        checker = RevocationChecker(evidence=parse_revocation(data, name="issuing.crl"))

    Args:
        data: the bytes.
        name: the file's name for the error message.

    Raises:
        FormatError: `revocation.unreadable`.
    """
    try:
        return RevocationEvidence(crls=parse_crls(data))
    except FormatError as not_crl:
        try:
            return RevocationEvidence(ocsp=(parse_ocsp_response(data),))
        except FormatError as not_ocsp:
            raise FormatError(
                "revocation.unreadable",
                f"{name} is neither a CRL ({not_crl.message}) nor an OCSP response ({not_ocsp.message})",
            ) from not_ocsp
