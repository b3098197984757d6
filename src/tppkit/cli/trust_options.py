"""The options --trust, --trusted-lists, --crl and --ocsp, and how commands print what was found by them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from tppkit._clock import format_time
from tppkit.trust import CertificateStatus, QualifiedStatus, TrustedPath

_file = click.Path(path_type=Path)
NOT_ASKED = "not asked; give --crl or --ocsp"


def trust_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options, as the parameters `trust`, `trusted_lists`, `crls` and `responses`."""
    options = (
        click.option("--trust", type=_file, metavar="FILE_OR_DIR", help="Authorities that certificates must chain to."),
        click.option(
            "--trusted-lists", type=click.Path(path_type=Path, exists=True, file_okay=False), metavar="DIR",
            help="Folder of trusted lists, by which certificates must be qualified; without --trust, authorities that the"
            " lists grant are the anchors.",
        ),
        click.option("--crl", "crls", multiple=True, type=_file, metavar="FILE", help="A CRL that was kept."),
        click.option(
            "--ocsp", "responses", multiple=True, type=_file, metavar="FILE", help="An OCSP response that was kept."
        ),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def path_facts(path: TrustedPath | None) -> list[tuple[str, str]]:
    """The chain, one line for each certificate."""
    if path is None:
        return [("chain", "none holds")]
    first, *above = [str(certificate.subject) for certificate in path.chain]
    return [("chain", first), *(("", f"issued by {name}") for name in above)]


def revocation_facts(path: TrustedPath | None, *, asked: bool) -> list[tuple[str, str]]:
    """What is known of a chain's revocation, one line for each certificate."""
    if not asked:
        return [("revocation", NOT_ASKED)]
    known = path.revocation if path else ()
    first, *others = [f"{status.certificate.subject}: {status.state}{_source(status)}" for status in known] or [
        "not proven"
    ]
    return [("revocation", first), *(("", text) for text in others)]


def revocation_object(path: TrustedPath | None, *, asked: bool) -> Sequence[dict[str, Any]] | None:
    """The revocation of a chain as JSON; null if it was not asked or not proven."""
    return [_status_object(status) for status in path.revocation] if path and asked else None


def listing_facts(status: QualifiedStatus | None) -> list[tuple[str, str]]:
    """What the trusted lists state; nothing if they were not asked."""
    if status is None:
        return []
    listing = status.listing
    service = f", {listing.instance.name} ({listing.issuer.trusted_list.territory})" if listing else ""
    return [("trusted list", f"qualified for {', '.join(status.qualified_for) or 'nothing'}{service}")]


def listing_object(status: QualifiedStatus | None) -> dict[str, Any] | None:
    """What the trusted lists state, as JSON; null if they were not asked."""
    if status is None:
        return None
    listing = status.listing
    return {
        "code": status.code,
        "qualified_for": list(status.qualified_for),
        "with_device": status.with_device,
        "service": listing and listing.instance.name,
        "provider": listing and listing.issuer.provider.name,
        "territory": listing and listing.issuer.trusted_list.territory,
        "status": listing and listing.instance.status,
        "status_since": listing and format_time(listing.instance.since),
    }


def _source(status: CertificateStatus) -> str:
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
