"""Every row of the table of dialects, with a provider that seals in it and a bank that demands it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tppkit.client import Identity
from tppkit.httpsig.algorithms import ALGORITHMS
from tppkit.seals import PROFILES, KeyIdForm, Seal, SealPolicy, SealProfile
from tppkit.testpki import Pki
from tppkit.trust import PathVerifier, make_anchors

KEY_IDS = {KeyIdForm.CLIENT_ID: "client-1", KeyIdForm.URL: "https://tpp.example/seal"}


@dataclass(frozen=True)
class Dialect:
    """A row, a provider that seals in it, and a bank's policy.

    Attributes:
        profile: the row.
        identity: with a seal of a kind of key that the row has.
        policy: trusts that seal.
    """

    profile: SealProfile
    identity: Identity
    policy: SealPolicy


def identity_of(pki: Pki, seal: Seal | None = None) -> Identity:
    """The provider of a PKI, which trusts the servers of that PKI."""
    qwac, anchors = pki.qwac, [pki.root.certificate]
    return Identity(qwac.certificate, qwac.key, chain=qwac.chain, seal=seal, server_anchors=anchors)


def make_dialects(bank_pki: Pki, rsa_pki: Pki) -> Mapping[str, Dialect]:
    """Every row by its name; of the PKI of the bank's server where the row takes its P-256 keys, else of the other one."""

    def dialect(profile: SealProfile) -> Dialect:
        has_p256 = any(ALGORITHMS[name].key == "P-256" for _, name in profile.algorithms)
        qwac, qseal = (bank_pki.qwac, bank_pki.qseal) if has_p256 else (rsa_pki.qwac, rsa_pki.qseal)
        seal = Seal.for_key(qseal.certificate, qseal.key, profile=profile, key_id=KEY_IDS.get(profile.key_id.form))
        identity = Identity(qwac.certificate, qwac.key, seal=seal, server_anchors=[bank_pki.root.certificate])
        known = {} if profile.certificate_header else {seal.key_id: seal.certificate}
        paths = PathVerifier(make_anchors([*bank_pki.authorities, *rsa_pki.authorities]))
        return Dialect(profile, identity, SealPolicy(paths, profile=profile, certificates=known))

    return {name: dialect(profile) for name, profile in PROFILES.items()}
