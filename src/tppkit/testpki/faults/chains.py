"""Faults of chains: the certificate is sound, but not what stands above it."""

from __future__ import annotations

from dataclasses import replace

from cryptography import x509

from tppkit.testpki.draft import Draft, Extension, extension_of
from tppkit.testpki.faults.case import Bench, FaultCase
from tppkit.testpki.faults.registry import fault
from tppkit.testpki.profiles import key_usage


@fault("trust.no-path")
def missing_intermediate(bench: Bench) -> FaultCase:
    """The issuing authority is not sent along."""
    return bench.below(bench.authority("tppkit TEST Absent CA"))._replace(intermediates=())


@fault("trust.no-path")
def strange_root(bench: Bench) -> FaultCase:
    """The chain ends at a root that nobody believes."""
    stranger = bench.root("tppkit TEST Strange Root")
    return bench.below(bench.authority("tppkit TEST Strange CA", issuer=stranger), stranger)


@fault("path.expired")
def expired_authority(bench: Bench) -> FaultCase:
    """The issuing authority expired."""
    return bench.below(bench.authority("tppkit TEST Expired CA", change=bench.expired))


@fault("path.not-yet-valid")
def authority_not_yet_valid(bench: Bench) -> FaultCase:
    """The issuing authority begins in a week."""
    return bench.below(
        bench.authority("tppkit TEST Early CA", change=lambda draft: replace(draft, not_before=bench.later))
    )


@fault("path.no-authority")
def issuer_is_no_authority(bench: Bench) -> FaultCase:
    """The issuer's certificate does not say that it is an authority."""
    constraints = extension_of(x509.BasicConstraints(ca=False, path_length=None), True)
    return bench.below(bench.authority("tppkit TEST No CA", change=lambda draft: draft.with_extension(constraints)))


@fault("path.no-authority")
def provider_issues(bench: Bench) -> FaultCase:
    """Another provider's QWAC signed the certificate."""
    return bench.below(bench.pki.other_qwac, bench.pki.qwac_ca)


@fault("path.key-usage")
def authority_without_signing_usage(bench: Bench) -> FaultCase:
    """The issuing authority's key is not for certificates."""
    usage = extension_of(*key_usage("crl_sign"))
    return bench.below(bench.authority("tppkit TEST CRL CA", change=lambda draft: draft.with_extension(usage)))


@fault("path.length")
def path_too_long(bench: Bench) -> FaultCase:
    """An authority that may have none below it has one."""
    upper = bench.authority("tppkit TEST Last CA")
    return bench.below(bench.authority("tppkit TEST Lower CA", issuer=upper), upper)


def _constrained(bench: Bench, constraints: x509.NameConstraints) -> FaultCase:
    extension = extension_of(constraints, True)
    return bench.below(
        bench.authority("tppkit TEST Constrained CA", change=lambda draft: draft.with_extension(extension))
    )


@fault("path.name-constraints")
def excluded_name(bench: Bench) -> FaultCase:
    """The issuing authority excludes the certificate's DNS name."""
    excluded = [x509.DNSName("example.com")]
    return _constrained(bench, x509.NameConstraints(permitted_subtrees=None, excluded_subtrees=excluded))


@fault("path.name-constraints")
def name_not_permitted(bench: Bench) -> FaultCase:
    """The issuing authority permits other DNS names only."""
    permitted = [x509.DNSName("elsewhere.example.org")]
    return _constrained(bench, x509.NameConstraints(permitted_subtrees=permitted, excluded_subtrees=None))


@fault("path.policy")
def policy_not_passed_on(bench: Bench) -> FaultCase:
    """The issuing authority wants a policy to hold, and states another than the certificate's."""
    policies = x509.CertificatePolicies([x509.PolicyInformation(x509.ObjectIdentifier("2.999.1"), None)])
    wanted = x509.PolicyConstraints(require_explicit_policy=0, inhibit_policy_mapping=None)

    def change(draft: Draft) -> Draft:
        return draft.with_extension(extension_of(policies, False)).with_extension(extension_of(wanted, True))

    return bench.below(bench.authority("tppkit TEST Policy CA", change=change))


@fault("path.critical-extension")
def authority_with_unknown_critical_extension(bench: Bench) -> FaultCase:
    """The issuing authority has a critical extension that nobody knows."""
    extension = Extension("2.999.7", b"\x05\x00", critical=True)
    return bench.below(bench.authority("tppkit TEST Odd CA", change=lambda draft: draft.with_extension(extension)))


@fault("path.weak-signature")
def authority_signed_with_sha1(bench: Bench) -> FaultCase:
    """The root signed the issuing authority with SHA-1."""
    return bench.below(bench.authority("tppkit TEST SHA-1 CA", hash_name="sha1"))


@fault("path.signature")
def authority_of_another_root(bench: Bench) -> FaultCase:
    """Another key than the root's signed the issuing authority in its name."""
    forger = bench.root("tppkit TEST Root CA")
    named = replace(bench.pki.root, key=forger.key)
    return bench.below(bench.authority("tppkit TEST Forged CA", issuer=named))
