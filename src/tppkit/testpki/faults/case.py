"""What a fault is: one thing wrong with a certificate, its chain or what is said of its revocation, and the codes for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from tppkit.certificates import Use, der, oids
from tppkit.testpki.authority import Pki
from tppkit.testpki.crl import Revocation, write_crl
from tppkit.testpki.draft import Draft, Extension, write_name
from tppkit.testpki.faults.edits import with_attribute
from tppkit.testpki.issued import Drafted, Issued, for_key, key_identifier, public_key_bits, sign_draft
from tppkit.testpki.keys import PrivateKey, public_key_der
from tppkit.testpki.ocsp import Single, make_cert_id, write_answer

QWAC, SEAL = Use.QWAC, Use.QSEALC
FAILS, WARNS, NOTES = "fails", "warns", "notes"
DAY = timedelta(days=1)
# What is sound in a fault holds from the PKI's first midnight for so long; what is to come begins at the end of it, and what
# is past ended before that midnight: so each fault is one from the moment in which it is made.
LASTING = timedelta(days=7)
Change = Callable[[Draft], Draft]


class FaultCase(NamedTuple):
    """A fault, made.

    Attributes:
        leaf: DER of the certificate.
        intermediates: DER of the authorities sent along.
        crls: DER of revocation lists that were kept.
        ocsp: DER of OCSP answers that were kept.
    """

    leaf: bytes
    intermediates: tuple[bytes, ...] = ()
    crls: tuple[bytes, ...] = ()
    ocsp: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Fault:
    """One row of the catalogue.

    Attributes:
        name: short name, also the stem of its files.
        summary: what is wrong, in one line.
        use: what the certificate claims to be.
        expected: every code that a check of it gives, sorted.
        verdict: `fails`, the check refuses it; `warns`, it breaks a recommendation, and the check holds; `notes`, the check holds
            and gives notices only.
        make: makes it.
    """

    name: str
    summary: str
    use: Use
    expected: tuple[str, ...]
    verdict: str
    make: Callable[[Bench], FaultCase]


@dataclass(frozen=True, slots=True)
class Bench:
    """What a fault is made with.

    Attributes:
        pki: a sound PKI.
        name: the fault's name, from which its keys and serial numbers come.
    """

    pki: Pki
    name: str

    @property
    def start(self) -> datetime:
        """The midnight at which what is sound begins, aware UTC."""
        return self.pki.not_before

    @property
    def later(self) -> datetime:
        """When what is to come begins, aware UTC."""
        return self.start + LASTING

    @property
    def last_week(self) -> datetime:
        """When the last week of the authorities begins, aware UTC: to come for as long as the PKI is of use."""
        return self.pki.qwac_ca.certificate.not_after - LASTING

    def expired(self, draft: Draft) -> Draft:
        """The draft with a validity that ended at noon of the day before the PKI begins."""
        return replace(draft, not_before=self.start - 90 * DAY, not_after=self.start - DAY / 2)

    def issued(self, use: Use) -> Issued:
        """The sound certificate of that use."""
        return self.pki.qwac if use is QWAC else self.pki.qseal

    def issuer(self, use: Use) -> Issued:
        """Its authority."""
        return self.pki.qwac_ca if use is QWAC else self.pki.qseal_ca

    def draft(self, use: Use) -> Draft:
        """The sound certificate before it was signed, with a serial number of its own."""
        return replace(Draft.of(self.issued(use).certificate), serial=self._serial("leaf"))

    def case(self, use: Use, leaf: bytes, **further: Any) -> FaultCase:
        """A case whose chain is sound."""
        return FaultCase(leaf, (self.issuer(use).certificate.der,), **further)

    def changed(self, use: Use, change: Change) -> FaultCase:
        """The sound certificate of that use but for what `change` makes of it; its chain is sound."""
        return self.case(use, change(self.draft(use)).sign(self.issuer(use).key))

    def sound(self, **further: Any) -> FaultCase:
        """The sound QWAC, about which something is said."""
        return self.case(QWAC, self.pki.qwac.certificate.der, **further)

    def authority(
        self, label: str, *, issuer: Issued | None = None, change: Change | None = None, hash_name: str | None = None
    ) -> Issued:
        """Another issuing authority with a P-256 key of its own, sound but for what `change` makes of it.

        Args:
            label: its name.
            issuer: who signs it; the root by default.
            change: makes something wrong of it.
            hash_name: as for `Draft.sign`.
        """
        issuer = issuer or self.pki.root
        key, draft = self._another(self.pki.qwac_ca, label)
        draft = _identified(with_attribute(draft, oids.COMMON_NAME, label), public_key_der(key), issuer)
        return sign_draft(
            Drafted(change(draft) if change else draft, key), issuer, label, "issuing-ca", hash_name=hash_name
        )

    def root(self, label: str) -> Issued:
        """Another root with a P-256 key of its own, that nobody believes."""
        key, draft = self._another(self.pki.root, label)
        draft, public = with_attribute(draft, oids.COMMON_NAME, label), public_key_der(key)
        return sign_draft(
            Drafted(_for(draft, public, write_name(draft.subject), key_identifier(public)), key), None, label, "root"
        )

    def below(self, *authorities: Issued, change: Change | None = None) -> FaultCase:
        """A sound QWAC of the first authority; all of them are sent along."""
        issuer = authorities[0]
        draft = self.draft(QWAC)
        draft = _identified(draft, draft.public_key, issuer)
        signed = (change(draft) if change else draft).sign(issuer.key)
        return FaultCase(signed, tuple(authority.certificate.der for authority in authorities))

    def crl(self, *revoked: Revocation, issuer: Issued | None = None, **changes: Any) -> bytes:
        """DER of a revocation list of the authority for QWACs, sound but for what is changed (arguments of `write_crl`)."""
        issuer = issuer or self.pki.qwac_ca
        stated: dict[str, Any] = {
            "issuer": issuer.name, "key": issuer.key, "authority_key_identifier": issuer.key_identifier, "revoked": revoked,
            "this_update": self.start, "next_update": self.later, "number": 2,
        }  # fmt: skip
        return write_crl(**(stated | changes))

    def revoked(self, reason: str = "keyCompromise") -> Revocation:
        """The revocation of the sound QWAC, from its first moment."""
        return Revocation(self.pki.qwac.certificate.serial, self.start, reason)

    def single(self, **changes: Any) -> Single:
        """What a sound OCSP answer says of the sound QWAC: good; but for what is changed (fields of `Single`)."""
        issuer, leaf = self.pki.qwac_ca, self.pki.qwac.certificate
        cert_id = make_cert_id(issuer.name, public_key_bits(issuer.public_key_der), leaf.serial)
        return Single(cert_id, None, self.start, self.later)._replace(**changes)

    def ocsp(self, single: Single | None = None, *, responder: Issued | None = None, **changes: Any) -> bytes:
        """DER of an OCSP answer of the delegated responder, sound but for what is changed (arguments of `write_answer`)."""
        responder = responder or self.pki.responder(self.pki.qwac_ca)
        stated: dict[str, Any] = {
            "responder_key_hash": key_identifier(responder.public_key_der), "key": responder.key,
            "certificates": (responder.certificate.der,), "produced_at": self.start,
        }  # fmt: skip
        return write_answer([single or self.single()], **(stated | changes))

    def responder(self, issuer: Issued, *, change: Change | None = None) -> Issued:
        """Another delegated responder, sound but for what `change` makes of it."""
        key, draft = self._another(self.pki.responder(self.pki.qwac_ca), "responder")
        draft = _identified(draft, public_key_der(key), issuer)
        return sign_draft(Drafted(change(draft) if change else draft, key), issuer, "responder", "ocsp")

    def _another(self, model: Issued, label: str) -> tuple[PrivateKey, Draft]:
        """A new P-256 key, and the draft of a certificate like this one with a serial number of its own."""
        key = self.pki.keys.make_key(f"fault {self.name} {label}", kind="p256")
        return key, replace(Draft.of(model.certificate), serial=self._serial(label))

    def _serial(self, label: str) -> int:
        return self.pki.keys.make_serial(f"fault {self.name} {label}")


def judged_at(pki: Pki) -> datetime:
    """When the manifest wants the faults of a PKI judged, aware UTC: at noon of its first day; any time of it does."""
    return pki.not_before + DAY / 2


def _identified(draft: Draft, public_key: bytes, issuer: Issued) -> Draft:
    """The draft for another key and issuer, with the identifiers of both."""
    return _for(draft, public_key, issuer.name, issuer.key_identifier)


def _for(draft: Draft, public_key: bytes, issuer_name: bytes, issuer_key: bytes) -> Draft:
    authority = der.write_element(der.SEQUENCE, der.write_element(0x80, issuer_key))
    return for_key(replace(draft, issuer=issuer_name), public_key).with_extension(
        Extension(oids.AUTHORITY_KEY_IDENTIFIER, authority)
    )
