"""Faults that take more than one edit: of chains, of revocation lists and of OCSP responses."""

from __future__ import annotations

from dataclasses import replace

from cryptography import x509

from tppkit.certificates import der, oids
from tppkit.testpki.certificate import Attribute, Extension, extension_of, write_name
from tppkit.testpki.faults.edits import usage
from tppkit.testpki.faults.sound_pki import DAY, LASTING, FaultCase, SoundPki

NOBODY = write_name(
    (
        Attribute(oids.COUNTRY, "LT", der.PRINTABLE_STRING),
        Attribute(oids.ORGANIZATION, "tppkit TEST Nobody"),
        Attribute(oids.COMMON_NAME, "tppkit TEST Nobody"),
    )
)


def changed_after_signing(sound: SoundPki) -> FaultCase:
    """Put another serial number under the signature."""
    case, other = sound.edited(), sound.edited(lambda draft: replace(draft, serial=draft.serial ^ 1)).leaf
    value = der.read_children(case.leaf, der.read_whole(case.leaf, tag=der.SEQUENCE))[2]
    body, algorithm, _ = der.read_children(other, der.read_whole(other, tag=der.SEQUENCE))
    parts = other[body.offset : algorithm.end], case.leaf[value.offset : value.end]
    return case._replace(leaf=der.write_sequence(*parts))


def forged_authority(sound: SoundPki) -> FaultCase:
    """Sign an issuing authority in the root's name with another key."""
    forger = replace(sound.pki.root, key=sound.root("tppkit TEST Root CA").key)
    return sound.below(sound.authority("tppkit TEST Forged CA", issuer=forger))


def chain_of_three(sound: SoundPki) -> FaultCase:
    """Put an authority below one that may have none below it."""
    upper = sound.authority("tppkit TEST Last CA")
    return sound.below(sound.authority("tppkit TEST Lower CA", issuer=upper), upper)


def foreign_root(sound: SoundPki) -> FaultCase:
    """Send a chain up to a root that is not trusted."""
    stranger = sound.root("tppkit TEST Strange Root")
    return sound.below(sound.authority("tppkit TEST Strange CA", issuer=stranger), stranger)


def revoked_authority(sound: SoundPki) -> FaultCase:
    """Revoke the issuing authority by the root's CRL."""
    authority = sound.authority("tppkit TEST Revoked CA")
    revoked = sound.revoked("cACompromise")._replace(serial=authority.certificate.serial)
    crls = (sound.crl(issuer=authority), sound.crl(revoked, issuer=sound.pki.root))
    return sound.below(authority)._replace(crls=crls)


def crl_without_permission(sound: SoundPki) -> FaultCase:
    """Sign a CRL by an authority whose key may not sign CRLs."""
    authority = sound.authority("tppkit TEST Certs Only CA", usage("key_cert_sign"))
    return sound.below(authority)._replace(crls=(sound.crl(issuer=authority), sound.crl(issuer=sound.pki.root)))


def crl_scope(*, authorities_only: bool = False, indirect: bool = False) -> Extension:
    """Write the issuing distribution point of a CRL that covers less or more than its issuer's certificates."""
    point = x509.IssuingDistributionPoint(None, None, False, authorities_only, None, indirect, False)
    return extension_of(point, True)


def future_crl(sound: SoundPki) -> FaultCase:
    """Date the CRL years from now, while the authority that signed it is still valid."""
    begins = sound.last_week
    stated = sound.crl(this_update=begins, next_update=begins + LASTING)
    return sound.judged_by(crls=(stated, sound.crl(issuer=sound.pki.root)))


def future_ocsp(sound: SoundPki) -> FaultCase:
    """Date the OCSP response years from now, while its responder is still valid."""
    single = sound.single(this_update=sound.last_week, next_update=sound.last_week + DAY)
    answer = sound.ocsp(single, produced_at=single.this_update)
    return sound.judged_by(ocsp=(answer,), crls=(sound.crl(issuer=sound.pki.root),))


def stale_ocsp(sound: SoundPki) -> FaultCase:
    """Date the OCSP response two days back, from a responder that was valid then."""
    produced = sound.start - 2 * DAY
    single = sound.single(this_update=produced, next_update=sound.start - DAY)
    earlier = sound.responder(lambda draft: replace(draft, not_before=produced))
    return sound.judged_by(ocsp=(sound.ocsp(single, responder=earlier, produced_at=produced),))
