"""Certificates, CRLs and OCSP responses of a valid PKI, in which a fault changes one thing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, NamedTuple

from tppkit.certificates import EidasCertificate, Use, oids
from tppkit.certificates.authorities import AUTHORITIES
from tppkit.testpki.certificate import Draft, Drafted, Issued, below, for_key, sign_draft
from tppkit.testpki.crl import Revocation, write_crl
from tppkit.testpki.faults.edits import Edit, attribute
from tppkit.testpki.ocsp import Single, write_answer
from tppkit.testpki.pki import DEFAULT_DAYS, Pki
from tppkit.testpki.profiles import SERVICES_URL
from tppkit.testpki.provider import EXAMPLE, make_provider

DAY = timedelta(days=1)
# All parts of a fault that have no error are valid for a week from the PKI's first midnight. What is "not yet valid" begins after it, and
# what is "expired" ended before that midnight, so each fault is a fault from the moment of creation on.
LASTING = timedelta(days=7)


class FaultCase(NamedTuple):
    """The files of a fault.

    Attributes:
        leaf: DER of the certificate.
        intermediates: DER of the authorities that are sent with it.
        crls: DER of revocation lists to judge it with.
        ocsp: DER of OCSP responses to judge it with.
    """

    leaf: bytes
    intermediates: tuple[bytes, ...] = ()
    crls: tuple[bytes, ...] = ()
    ocsp: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class ValidPki:
    """A valid PKI, and the name of the fault that is made from it.

    valid = ValidPki(plain_pki(pki), "stale-crl")
    case = valid.judged_by(crls=(valid.crl(next_update=valid.start),))

    Attributes:
        pki: What `plain_pki` returned.
        name: The name of the fault; with a seed, it determines keys and serial numbers.
    """

    pki: Pki
    name: str

    @property
    def start(self) -> datetime:
        """The midnight at which the PKI begins, aware UTC."""
        return self.pki.not_before

    @property
    def later(self) -> datetime:
        """The end of the first week, aware UTC."""
        return self.start + LASTING

    @property
    def last_week(self) -> datetime:
        """The start of the last week of the authorities, aware UTC, which stays in the future while the PKI is used."""
        return self.pki.qwac_ca.certificate.not_after - LASTING

    def expired(self, draft: Draft) -> Draft:
        """Edit a draft: its validity ended at noon of the day before the PKI begins."""
        return replace(draft, not_before=self.start - 90 * DAY, not_after=self.start - DAY / 2)

    def early(self, draft: Draft) -> Draft:
        """Edit a draft: its validity begins after the first week."""
        return replace(draft, not_before=self.later)

    def edited(self, edit: Edit | None = None, *, use: Use = Use.QWAC, hash_name: str | None = None) -> FaultCase:
        """Return the valid certificate of a use with an edit, below its authority.

        Args:
            edit: What is changed before it is signed.
            use: The use of the certificate.
            hash_name: Hash of the signature, as for `Draft.sign`.
        """
        model, issuer = self.pki.members[use.value], self.pki.issuer_of(use.value)
        draft = replace(Draft.of(model.certificate), serial=self._serial("leaf"))
        signed = (edit(draft) if edit else draft).sign(issuer.key, hash_name=hash_name)
        return FaultCase(signed, (issuer.certificate.der,))

    def authority(self, label: str, edit: Edit | None = None, *, issuer: Issued | None = None) -> Issued:
        """Make another issuing authority with a P-256 key of its own.

        Args:
            label: Its common name.
            edit: What is changed before it is signed.
            issuer: The signer; the root by default.
        """
        return self._another(self.pki.qwac_ca, label, "issuing-ca", issuer or self.pki.root, edit)

    def root(self, label: str) -> Issued:
        """Make another root, which no verifier trusts."""
        return self._another(self.pki.root, label, "root", None)

    def responder(self, edit: Edit) -> Issued:
        """Make another delegated OCSP responder of the QWAC authority, with an edit."""
        return self._another(self._responder, "responder", "ocsp", self.pki.qwac_ca, edit)

    def below(self, *authorities: Issued) -> FaultCase:
        """Return a QWAC of the first authority, sent with all authorities."""
        issuer = authorities[0]
        draft = replace(Draft.of(self.pki.qwac.certificate), serial=self._serial("leaf"))
        signed = below(draft, self.pki.qwac.key.public_key(), issuer).sign(issuer.key)
        return FaultCase(signed, tuple(authority.certificate.der for authority in authorities))

    def below_edited(self, label: str, edit: Edit | None = None) -> FaultCase:
        """Return a QWAC below an `authority` with an edit."""
        return self.below(self.authority(label, edit))

    def judged_by(self, **answers: Any) -> FaultCase:
        """Return the valid QWAC with the `crls` and `ocsp` responses to judge it with."""
        return FaultCase(self.pki.qwac.certificate.der, (self.pki.qwac_ca.certificate.der,), **answers)

    def crl(self, *revoked: Revocation, issuer: Issued | None = None, **changes: Any) -> bytes:
        """Write a valid CRL of an authority, as DER.

        Args:
            revoked: The revoked certificates.
            issuer: The authority; that of QWACs by default.
            changes: Arguments of `write_crl` that differ.
        """
        stated = {"this_update": self.start, "next_update": self.later, "number": 2, **changes}
        return write_crl(issuer or self.pki.qwac_ca, revoked, **stated)

    def revoked(self) -> Revocation:
        """Return the revocation of the valid QWAC since its first moment."""
        return Revocation(self.pki.qwac.certificate.serial, self.start, "keyCompromise")

    def single(self, **changes: Any) -> Single:
        """Return what a valid OCSP response states about the valid QWAC; `changes` are fields of `Single`."""
        serial = self.pki.qwac.certificate.serial
        return Single(self.pki.qwac_ca, serial, None, self.start, self.later)._replace(**changes)

    def ocsp(self, single: Single | None = None, *, responder: Issued | None = None, **changes: Any) -> bytes:
        """Write a valid OCSP response, as DER.

        Args:
            single: What it states; that the valid QWAC is good by default.
            responder: The signer; the delegated responder of the QWAC authority by default.
            changes: Arguments of `write_answer` that differ.
        """
        stated = {"produced_at": self.start, **changes}
        return write_answer(single or self.single(), responder or self._responder, **stated)

    @property
    def _responder(self) -> Issued:
        return self.pki.responder(self.pki.qwac_ca)

    def _another(self, model: Issued, label: str, kind: str, issuer: Issued | None, edit: Edit | None = None) -> Issued:
        """Make a certificate like the model with a new P-256 key and serial number; without an issuer it signs itself."""
        key = self.pki.keys.make_key(f"fault {self.name} {label}", kind="p256")
        draft = replace(Draft.of(model.certificate), serial=self._serial(label))
        if kind != "ocsp":
            draft = attribute(oids.COMMON_NAME, label)(draft)
        draft = below(draft, key.public_key(), issuer)
        return sign_draft(Drafted(edit(draft) if edit else draft, key), issuer, label, kind)

    def _serial(self, label: str) -> int:
        return self.pki.keys.make_serial(f"fault {self.name} {label}")


def plain_pki(pki: Pki) -> Pki:
    """Return a PKI of the same authorities and keys, whose QWACs and QSealCs are issued again with default options.

    A fault of a plain certificate is the only finding of a check. The provider stays if its authority is known; it gets the
    default roles.
    """
    authority = AUTHORITIES.get(pki.provider.organization_identifier.nca_id or "")
    known = pki.provider if authority else EXAMPLE
    provider = make_provider(like=known, roles=EXAMPLE.roles, nca_name=authority)
    plain = replace(pki, provider=provider, policy="gen", qscd=False, days=DEFAULT_DAYS, services_url=SERVICES_URL)
    again = {issued.label: _issue_again(plain, issued) for issued in pki.issued if issued.kind in ("qwac", "qseal")}
    return replace(plain, members=MappingProxyType({**pki.members, **again}))


def _issue_again(plain: Pki, issued: Issued) -> Issued:
    """Issue the certificate with the same key and another serial number."""
    provider = plain.other_provider if issued.label.startswith("other-") else plain.provider
    draft = plain.draft(issued.kind, provider, label=f"fault {issued.label}", key="p256").draft
    signed = for_key(draft, issued.key.public_key()).sign(plain.issuer_of(issued.kind).key)
    return replace(issued, certificate=EidasCertificate.from_der(signed))


def judged_at(pki: Pki) -> datetime:
    """Return the time at which the manifest judges faults, aware UTC: noon of the PKI's first day."""
    return pki.not_before + DAY / 2
