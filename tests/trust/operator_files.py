"""The files of trust material as an operator keeps them: authorities, trusted lists and CRLs of a test PKI."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding
from list_builder import SEALS, WEB, Listed, ListFacts, State, list_of_lists, pointer, sign, write_list

from tppkit._files import replace_file
from tppkit.certificates import EidasCertificate
from tppkit.testpki import Pki, certificate_pem
from tppkit.testpki.crl import Revocation
from tppkit.trust import TrustMaterial, load_trust

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)
LATER = AT + timedelta(hours=1)


class OperatorFiles:
    """Anchors, lists and CRLs of a test PKI, as an operator keeps them; `frame` has dates of all lists."""

    def __init__(
        self, folder: Path, pki: Pki, operator: Any, commission: Any, *, at: datetime = AT, **frame: datetime
    ) -> None:
        self.pki, self.operator, self.commission, self.frame = pki, operator, commission, frame
        self.anchors, self.lists, self.crls = (folder / name for name in ("anchors", "lists", "crls"))
        for made in (self.anchors, self.lists / "lotl-signers", self.crls):
            made.mkdir(parents=True)
        signer = commission.certificate.x509.public_bytes(Encoding.PEM)
        (self.lists / "lotl-signers" / "a.pem").write_bytes(signer)
        self.write_anchors()
        self.write_lists()
        self.write_crls(at)

    def write_anchors(self, *left_out: EidasCertificate) -> None:
        """All authorities but those."""
        for number, authority in enumerate(self.pki.authorities):
            if authority in left_out:
                (self.anchors / f"{number}.pem").unlink()
            else:
                replace_file(self.anchors / f"{number}.pem", certificate_pem(authority))

    def write_lists(self, *, number: int = 7, granted: bool = True, **facts: Any) -> None:
        """The list of lists, then the national one, which grants both authorities, or not that of QWACs."""
        status = "granted" if granted else "withdrawn"
        facts = {**self.frame, **facts}
        since = datetime(2020, 1, 1, tzinfo=UTC)
        web = Listed(self.pki.qwac_ca.certificate, [State(status, since, (WEB,))])
        seals = Listed(self.pki.qseal_ca.certificate, [State("granted", since, (SEALS,))])
        national = ListFacts(providers={"P": [web, seals]}, sequence_number=number, **facts)
        top = list_of_lists([pointer("PT", [self.operator.certificate])], sequence_number=300 + number, **self.frame)
        replace_file(self.lists / "lotl.xml", sign(top, self.commission))
        replace_file(self.lists / "PT.xml", sign(write_list(national), self.operator))

    def write_crls(self, at: datetime, *revoked: int, days: int = 30) -> None:
        """CRLs of all authorities; serial numbers are revoked by both that issue certificates of providers."""
        entries = tuple(Revocation(serial, at) for serial in revoked)
        revocations = dict.fromkeys((self.pki.qwac_ca.label, self.pki.qseal_ca.label), entries)
        pki = replace(self.pki, days=days, revocations=MappingProxyType(revocations))
        for issuer in pki.issuers:
            replace_file(self.crls / f"{issuer.label}.crl", pki.crl(issuer, at=at))

    def load(self, **options: Any) -> TrustMaterial:
        return load_trust(trust=self.anchors, trusted_lists=self.lists, answers=self.crls, now=lambda: LATER, **options)


def halve(path: Path) -> None:
    """Leave the first half of a file, as a writer does that has not finished."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
