"""One request under examination: what every step reads, and adds its findings to."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from tppkit.certificates import EidasCertificate
from tppkit.certificates.differences import public_key_info
from tppkit.errors import FormatError
from tppkit.httpsig.algorithms import Algorithm, key_kind
from tppkit.httpsig.message import Message
from tppkit.seals.diagnose.mistakes import Finding, finding
from tppkit.seals.diagnose.refusals import Refusal, Verifier
from tppkit.seals.diagnose.search import Search, Signed


class Examination:
    """One request, with what was found so far.

        examination = Examination(message, verifier=Verifier(PSD2_V1), certificates=[qseal, qwac])
        examine_certificate(examination)
        examination.findings

    Attributes:
        given: the request as received.
        message: the request, with each mistake in its headers corrected once it is proven.
        verifier: what it is judged by.
        profile: the dialect it should be in.
        certificate: its seal certificate; None until it is found.
        candidates: the certificates whose keys may have signed it, the seal's first.
        unusable: the certificates that were given and whose keys cannot be read.
        findings: the mistakes that were proven.
        refusals: what the verifier rejects besides, in its own words.
        is_coverage_known: the seal names what it covers.
        search: for what was signed.
        signed: what was signed; None if it is not known.
        digest_fits: the digest is the body's, or was before it was replaced.
        body_explained: the digest fits, or known mistakes lead to it.
    """

    def __init__(self, message: Message, *, verifier: Verifier, certificates: Sequence[EidasCertificate]) -> None:
        known = dict.fromkeys((*certificates, *([verifier.qwac] if verifier.qwac is not None else [])))
        self.candidates = tuple([one for one in known if public_key_info(one) is not None])
        self.unusable = tuple([one for one in known if one not in self.candidates])
        self.given = self.message = message
        self.verifier = verifier
        self.profile = verifier.profile
        self.certificate: EidasCertificate | None = None
        self.findings: list[Finding] = []
        self.refusals: list[Refusal] = []
        self.search = Search((), max_work=0)
        self.signed: Signed | None = None
        self.is_coverage_known = self.digest_fits = self.body_explained = True

    def find(self, name: str, evidence: str) -> None:
        """Add a proven mistake, by the name of its row."""
        self.findings.append(finding(name, evidence))

    def due(self, owner: EidasCertificate, *, named: str = "") -> Algorithm | None:
        """The algorithm that the signature names, or else the usual one, for the key of a certificate."""
        with suppress(FormatError):
            names = self.profile.algorithms_of(key_kind(owner.public_key))
            return names.get(named) or self.profile.algorithm_for(owner)
        return None
