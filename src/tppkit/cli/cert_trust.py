"""Whom `tppkit cert check` believes, and what that says of a certificate: the trust options, loaded and asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tppkit.cli.certificates import Bundle
from tppkit.errors import CertificateRejected, Finding, Severity
from tppkit.trust import PathVerifier, TrustedPath, load_anchors


@dataclass(frozen=True, slots=True)
class Belief:
    """What was proven of a certificate beyond its profile.

    Attributes:
        findings: why it is not believed, and what should be known.
        path: the chain that holds, None when none does or none was asked for.
    """

    findings: tuple[Finding, ...] = ()
    path: TrustedPath | None = None

    def as_object(self) -> Mapping[str, Any]:
        """The same as JSON; null for what was not asked or not proven."""
        return {
            "chain": self.path and [str(certificate.subject) for certificate in self.path.chain],
            "revocation": None,
            "trusted_list": None,
        }


@dataclass(frozen=True, slots=True)
class TrustOptions:
    """The options about trust, read.

    Attributes:
        verifier: believes chains to the authorities of --trust; None without it.
    """

    verifier: PathVerifier | None

    def judge(self, bundle: Bundle, *, at: datetime) -> Belief:
        """Ask everything that was given about a certificate, at a time."""
        if self.verifier is None:
            return Belief()
        try:
            path = self.verifier.verify(bundle.leaf, at=at, intermediates=bundle.others)
        except CertificateRejected as e:
            return Belief(e.findings or (Finding(e.code, Severity.ERROR, e.message, e.clause),))
        return Belief(path=path)


def load_trust(trust: Path | None) -> TrustOptions:
    """Read what the options name.

    Raises:
        ConfigurationError: `trust.no-anchors`, `trust.unreadable`.
    """
    return TrustOptions(None if trust is None else PathVerifier(load_anchors(trust)))
