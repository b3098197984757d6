"""Faults that take more than one edit: of chains, of revocation lists and of OCSP responses."""

from __future__ import annotations

from dataclasses import replace

from tppkit.certificates import der
from tppkit.testpki.crl import Revocation
from tppkit.testpki.faults.valid_pki import DAY, LASTING, FaultCase, ValidPki


def changed_after_signing(valid: ValidPki) -> FaultCase:
    """Put another serial number under the signature."""
    case, other = valid.edited(), valid.edited(lambda draft: replace(draft, serial=draft.serial ^ 1)).leaf
    value = der.read_children(case.leaf, der.read_whole(case.leaf, tag=der.SEQUENCE))[2]
    body, algorithm, _ = der.read_children(other, der.read_whole(other, tag=der.SEQUENCE))
    parts = other[body.offset : algorithm.end], case.leaf[value.offset : value.end]
    return case._replace(leaf=der.write_sequence(*parts))


def chain_of_three(valid: ValidPki) -> FaultCase:
    """Put an authority below one that may have none below it."""
    upper = valid.authority("tppkit TEST Last CA")
    return valid.below(valid.authority("tppkit TEST Lower CA", issuer=upper), upper)


def foreign_root(valid: ValidPki) -> FaultCase:
    """Send a chain up to a root that is not trusted."""
    foreign = valid.root("tppkit TEST Foreign Root")
    return valid.below(valid.authority("tppkit TEST Foreign CA", issuer=foreign), foreign)


def revoked_authority(valid: ValidPki) -> FaultCase:
    """Revoke the issuing authority by the root's CRL."""
    authority = valid.authority("tppkit TEST Revoked CA")
    revoked = Revocation(authority.certificate.serial, valid.start, "cACompromise")
    crls = (valid.crl(issuer=authority), valid.crl(revoked, issuer=valid.pki.root))
    return valid.below(authority)._replace(crls=crls)


def future_crl(valid: ValidPki) -> FaultCase:
    """Date the CRL years from now, while the authority that signed it is still valid."""
    begins = valid.last_week
    stated = valid.crl(this_update=begins, next_update=begins + LASTING)
    return valid.judged_by(crls=(stated, valid.crl(issuer=valid.pki.root)))


def stale_ocsp(valid: ValidPki) -> FaultCase:
    """Date the OCSP response two days back, from a responder that was valid then."""
    produced = valid.start - 2 * DAY
    single = valid.single(this_update=produced, next_update=valid.start - DAY)
    earlier = valid.responder(lambda draft: replace(draft, not_before=produced))
    return valid.judged_by(ocsp=(valid.ocsp(single, responder=earlier, produced_at=produced),))
