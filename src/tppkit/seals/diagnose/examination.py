"""One request under examination: what every step reads, and adds its findings to."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from tppkit.certificates import EidasCertificate
from tppkit.certificates.differences import public_key_info
from tppkit.errors import FormatError
from tppkit.httpsig.algorithms import Algorithm, key_kind
from tppkit.message import Message
from tppkit.seals.diagnose.mistakes import Finding, finding
from tppkit.seals.diagnose.refusals import Refusal, Verifier


class Examination:
    """One request, with what was found so far.

        examination = Examination(message, verifier=Verifier(PSD2_V1), certificates=[qseal, qwac])
        examine_certificate(examination)
        examination.findings

    Attributes:
        given: the request as received.
        message: the request, its certificate and then its signature rewritten in the dialect's form.
        verifier: what it is judged by.
        profile: the dialect it should be in.
        certificate: its seal certificate; None until it is found.
        candidates: the certificates whose keys may have signed it, the seal's first.
        unusable: the certificates that were given and whose keys cannot be read.
        findings: the mistakes that were proven.
        refusals: what the verifier rejects and no finding explains, in its own words.
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

    def find(self, name: str, evidence: str) -> None:
        """Add a proven mistake, by the name of its row."""
        self.findings.append(finding(name, evidence))

    def due(self, owner: EidasCertificate, *, named: str = "") -> Algorithm | None:
        """The algorithm that the signature names, or else the usual one, for the key of a certificate."""
        with suppress(FormatError):
            names = self.profile.algorithms_of(key_kind(owner.public_key))
            return names.get(named) or self.profile.algorithm_for(owner)
        return None
