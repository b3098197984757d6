"""Faults of revocation: the certificate is sound, but revoked, or what is said of it proves nothing."""

from __future__ import annotations

from dataclasses import replace

from cryptography import x509

from tppkit.certificates import der, oids
from tppkit.testpki.draft import Extension, extension_of
from tppkit.testpki.faults.case import DAY, LASTING, WARNS, Bench, FaultCase
from tppkit.testpki.faults.registry import fault
from tppkit.testpki.ocsp import TRY_LATER, write_refusal
from tppkit.testpki.profiles import key_usage

_DELTA_CRL, _SCOPE = "2.5.29.27", "2.5.29.28"
_UNPROVEN = "revocation.unknown"


@fault("revocation.revoked")
def revoked_by_crl(bench: Bench) -> FaultCase:
    """The revocation list has the certificate: its key was compromised."""
    return bench.sound(crls=(bench.crl(bench.revoked()),))


@fault("revocation.revoked")
def on_hold(bench: Bench) -> FaultCase:
    """The certificate is on hold."""
    return bench.sound(crls=(bench.crl(bench.revoked("certificateHold")),))


@fault("revocation.revoked")
def revoked_by_ocsp(bench: Bench) -> FaultCase:
    """OCSP says that the certificate is revoked."""
    return bench.sound(ocsp=(bench.ocsp(bench.single(revocation=bench.revoked())),))


@fault("revocation.revoked")
def revoked_authority(bench: Bench) -> FaultCase:
    """The root revoked the issuing authority."""
    authority = bench.authority("tppkit TEST Revoked CA")
    case = bench.below(authority)
    revoked = bench.revoked("cACompromise")._replace(serial=authority.certificate.serial)
    return case._replace(crls=(bench.crl(issuer=authority), bench.crl(revoked, issuer=bench.pki.root)))


@fault("revocation.stale")
def stale_crl(bench: Bench) -> FaultCase:
    """The revocation list should have been renewed the day before."""
    return bench.sound(crls=(bench.crl(this_update=bench.start - 8 * DAY, next_update=bench.start - DAY),))


@fault("revocation.future", "revocation.unknown")
def crl_from_the_future(bench: Bench) -> FaultCase:
    """The revocation list begins years from now, in the last week of its authority."""
    begins = bench.last_week
    stated = bench.crl(this_update=begins, next_update=begins + LASTING)
    return bench.sound(crls=(stated, bench.crl(issuer=bench.pki.root)))


@fault("crl.undated", "revocation.unknown", verdict=WARNS)
def crl_without_end(bench: Bench) -> FaultCase:
    """The revocation list does not say when the next one comes."""
    return bench.sound(crls=(bench.crl(next_update=None),))


@fault("crl.signature", "revocation.unknown")
def forged_crl(bench: Bench) -> FaultCase:
    """Another authority's key signed the revocation list."""
    return bench.sound(crls=(bench.crl(key=bench.pki.qseal_ca.key),))


@fault("crl.weak-signature", "revocation.unknown")
def crl_with_sha1(bench: Bench) -> FaultCase:
    """The revocation list is signed with SHA-1."""
    return bench.sound(crls=(bench.crl(hash_name="sha1"),))


@fault(_UNPROVEN)
def crl_of_another_authority(bench: Bench) -> FaultCase:
    """The revocation list is that of the authority for QSealCs."""
    return bench.sound(crls=(bench.crl(issuer=bench.pki.qseal_ca),))


@fault("crl.critical-extension", "revocation.unknown")
def crl_with_unknown_critical_extension(bench: Bench) -> FaultCase:
    """The revocation list has a critical extension that nobody knows."""
    return bench.sound(crls=(bench.crl(further=(Extension("2.999.7", b"\x05\x00", critical=True),)),))


@fault("crl.delta", "revocation.unknown")
def delta_crl(bench: Bench) -> FaultCase:
    """The revocation list has only what changed since another."""
    return bench.sound(crls=(bench.crl(further=(Extension(_DELTA_CRL, der.write_integer(1), critical=True),)),))


def _scope(*, authorities_only: bool = False, indirect: bool = False) -> Extension:
    point = x509.IssuingDistributionPoint(
        full_name=None,
        relative_name=None,
        only_contains_user_certs=False,
        only_contains_ca_certs=authorities_only,
        only_some_reasons=None,
        indirect_crl=indirect,
        only_contains_attribute_certs=False,
    )
    return extension_of(point, True)


@fault("crl.scope", "revocation.unknown")
def crl_of_authorities_only(bench: Bench) -> FaultCase:
    """The revocation list is about authorities only."""
    return bench.sound(crls=(bench.crl(further=(_scope(authorities_only=True),)),))


@fault("crl.indirect", "revocation.unknown")
def indirect_crl(bench: Bench) -> FaultCase:
    """The revocation list is one about several authorities' certificates."""
    return bench.sound(crls=(bench.crl(further=(_scope(indirect=True),)),))


@fault("crl.key-usage", "revocation.unknown")
def crl_of_an_authority_that_may_not(bench: Bench) -> FaultCase:
    """The issuing authority's key is not for revocation lists."""
    usage = extension_of(*key_usage("key_cert_sign"))
    authority = bench.authority("tppkit TEST Certs Only CA", change=lambda draft: draft.with_extension(usage))
    return bench.below(authority)._replace(crls=(bench.crl(issuer=authority), bench.crl(issuer=bench.pki.root)))


@fault("revocation.stale")
def stale_ocsp(bench: Bench) -> FaultCase:
    """The OCSP answer was good until the day before."""
    produced = bench.start - 2 * DAY
    single = bench.single(this_update=produced, next_update=bench.start - DAY)
    earlier = bench.responder(bench.pki.qwac_ca, change=lambda draft: replace(draft, not_before=produced))
    return bench.sound(ocsp=(bench.ocsp(single, responder=earlier, produced_at=produced),))


@fault("revocation.future", "revocation.unknown")
def ocsp_from_the_future(bench: Bench) -> FaultCase:
    """The OCSP answer begins years from now, in the last week of its authority."""
    single = bench.single(this_update=bench.last_week, next_update=bench.last_week + DAY)
    answer = bench.ocsp(single, produced_at=single.this_update)
    return bench.sound(ocsp=(answer,), crls=(bench.crl(issuer=bench.pki.root),))


@fault(_UNPROVEN)
def unknown_to_ocsp(bench: Bench) -> FaultCase:
    """OCSP says that it does not know the certificate."""
    return bench.sound(ocsp=(bench.ocsp(bench.single(known=False)),))


@fault("ocsp.status", "revocation.unknown")
def ocsp_try_later(bench: Bench) -> FaultCase:
    """The OCSP responder has no answer now."""
    return bench.sound(ocsp=(write_refusal(TRY_LATER),))


@fault("revocation.unknown")
def ocsp_about_another_certificate(bench: Bench) -> FaultCase:
    """The OCSP answer is about another certificate of the same authority."""
    single = bench.single()
    other = single.cert_id._replace(serial=bench.pki.other_qwac.certificate.serial)
    return bench.sound(ocsp=(bench.ocsp(single._replace(cert_id=other)),))


@fault("ocsp.signature", "revocation.unknown")
def forged_ocsp(bench: Bench) -> FaultCase:
    """Another key than the responder's signed the OCSP answer."""
    return bench.sound(ocsp=(bench.ocsp(key=bench.pki.qseal.key),))


@fault("ocsp.weak-signature", "revocation.unknown")
def ocsp_with_sha1(bench: Bench) -> FaultCase:
    """The OCSP answer is signed with SHA-1."""
    return bench.sound(ocsp=(bench.ocsp(hash_name="sha1"),))


@fault("ocsp.stranger", "revocation.unknown")
def ocsp_of_a_stranger(bench: Bench) -> FaultCase:
    """The OCSP responder was certified by another authority."""
    return bench.sound(ocsp=(bench.ocsp(responder=bench.pki.responder(bench.pki.qseal_ca)),))


@fault("ocsp.stranger", "revocation.unknown")
def ocsp_of_a_provider(bench: Bench) -> FaultCase:
    """A provider's certificate, which is not for OCSP, signed the answer."""
    return bench.sound(ocsp=(bench.ocsp(responder=bench.pki.other_qwac),))


@fault("ocsp.stranger", "revocation.unknown")
def expired_responder(bench: Bench) -> FaultCase:
    """The OCSP responder's certificate expired."""
    return bench.sound(ocsp=(bench.ocsp(responder=bench.responder(bench.pki.qwac_ca, change=bench.expired)),))


@fault("ocsp.stranger", "revocation.unknown")
def responder_without_purpose(bench: Bench) -> FaultCase:
    """The OCSP responder's certificate is not for OCSP."""
    responder = bench.responder(
        bench.pki.qwac_ca, change=lambda draft: draft.without_extension(oids.EXTENDED_KEY_USAGE)
    )
    return bench.sound(ocsp=(bench.ocsp(responder=responder),))
