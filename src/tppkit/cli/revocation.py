"""Revocation on the command line: the options --crl and --ocsp, what judges by them, and how that is told."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import click

from tppkit._clock import format_time
from tppkit.trust import (
    CertificateStatus,
    RevocationChecker,
    RevocationEvidence,
    RevocationPolicy,
    TrustedPath,
    load_revocation,
)

_file = click.Path(path_type=Path)
crl_option = click.option("--crl", "crls", multiple=True, type=_file, metavar="FILE", help="A CRL that was kept.")
ocsp_option = click.option(
    "--ocsp", "responses", multiple=True, type=_file, metavar="FILE", help="An OCSP response that was kept."
)
NOT_ASKED = "not asked; give --crl or --ocsp"


def load_answers(files: Sequence[Path]) -> RevocationEvidence | None:
    """The answers in the files of both options; None where none is named.

    Raises:
        FormatError: as `load_revocation`.
    """
    return load_revocation(files) if files else None


def make_checker(evidence: RevocationEvidence | None, *, now: datetime) -> RevocationChecker | None:
    """Judges by the answers that were given; None where none were.

    The certificate itself must be proven good; an authority above it of which nothing usable is known gives a warning.

    Args:
        evidence: the answers.
        now: the present, or the time of judgement where that is later: answers from after it are refused.
    """
    if evidence is None:
        return None
    # No news comes while a command runs, so a verdict may be remembered for as long as the answers behind it are fresh.
    return RevocationChecker(
        policy=RevocationPolicy.HARD_FAIL_LEAF, evidence=evidence, now=lambda: now, remember=timedelta.max
    )


def revocation_facts(path: TrustedPath | None, *, asked: bool) -> list[tuple[str, str]]:
    """What is known of a chain's revocation, a line for each certificate."""
    if not asked:
        return [("revocation", NOT_ASKED)]
    known = path.revocation if path else ()
    first, *others = [f"{status.certificate.subject}: {status.state}{_by(status)}" for status in known] or [
        "not proven"
    ]
    return [("revocation", first), *(("", text) for text in others)]


def revocation_object(path: TrustedPath | None, *, asked: bool) -> Sequence[dict[str, Any]] | None:
    """The same as JSON; null for what was not asked or not proven."""
    return [_status_object(status) for status in path.revocation] if path and asked else None


def _by(status: CertificateStatus) -> str:
    return f", {status.source} of {format_time(status.this_update)}" if status.source and status.this_update else ""


def _status_object(status: CertificateStatus) -> dict[str, Any]:
    times = ("this_update", "next_update", "produced_at", "revoked_at")
    return {
        "subject": str(status.certificate.subject),
        "state": status.state.value,
        "source": status.source and status.source.value,
        "evidence_sha256": status.evidence_sha256,
        **{name: _time(getattr(status, name)) for name in times},
        "signer": status.signer and str(status.signer.subject),
        "reason": status.reason,
    }


def _time(at: datetime | None) -> str | None:
    return None if at is None else format_time(at)
