"""Options about what is accepted: authorities, lists, organisations, dialects; and what was found with them as text and JSON."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

import click

from tppkit._clock import format_time
from tppkit._text import did_you_mean
from tppkit.certificates import OrganizationPolicy
from tppkit.cli.output import finding_line, present, reading, say
from tppkit.seals import PROFILES, SealProfile, load_profile
from tppkit.trust import (
    CertificateStatus,
    QualifiedStatus,
    RevocationEvidence,
    TrustedPath,
    TrustMaterial,
    load_revocation,
    load_trust,
)
from tppkit.trust.trusted_list.qualified_status import Listing

_file = click.Path(path_type=Path)
folder_type = click.Path(path_type=Path, exists=True, file_okay=False)
NO_TRUST = "no trust material: give --trust or --trusted-lists"
NOT_ASKED = "not asked; give --crl or --ocsp"
PROFILE_HELP = f"The bank's dialect: your own TOML file, or one of {', '.join(PROFILES)}."


class TrustFiles(NamedTuple):
    """The files that the options name.

    Attributes:
        anchors: of --trust.
        lists: of --trusted-lists.
        answers: of --crl and --ocsp.
    """

    anchors: Path | None
    lists: Path | None
    answers: tuple[Path, ...]

    def load(self, at: datetime | None) -> TrustMaterial:
        """Read the files.

        Args:
            at: the time to judge at; None if that is not after the present.

        Raises:
            UnreadableFile: a file of --crl or --ocsp is unreadable.
            ConfigurationError, FormatError, VerificationError: as `load_trust`.
        """
        answers: RevocationEvidence | None = None
        for file in self.answers:
            with reading(file):
                answers = (answers or RevocationEvidence()) + load_revocation([file])
        if not any(self):
            return TrustMaterial()
        now = present(None)
        material = load_trust(trust=self.anchors, trusted_lists=self.lists, answers=answers, now=max(now, at or now))
        for finding in material.anchors.findings if material.anchors else ():
            say(finding_line(finding))
        return material


def trust_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options, as the parameter `trust` with `TrustFiles`."""

    @click.option("--trust", type=_file, metavar="FILE_OR_DIR", help="Authorities that certificates must chain to.")
    @click.option(
        "--trusted-lists",
        type=folder_type,
        metavar="DIR",
        help="Folder of trusted lists, by which certificates must be qualified. Without --trust, chains must end at an"
        " authority that the lists grant.",
    )
    @click.option("--crl", "crls", multiple=True, type=_file, metavar="FILE", help="A stored CRL.")
    @click.option("--ocsp", "responses", multiple=True, type=_file, metavar="FILE", help="A stored OCSP response.")
    @wraps(command)
    def with_trust(
        *args: Any,
        trust: Path | None,
        trusted_lists: Path | None,
        crls: tuple[Path, ...],
        responses: tuple[Path, ...],
        **options: Any,
    ) -> Any:
        return command(*args, trust=TrustFiles(trust, trusted_lists, (*crls, *responses)), **options)

    return with_trust  # fmt: skip


def organization_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --org-scheme and --any-authority to a command, as the parameter `organizations`."""

    @click.option(
        "--org-scheme", "schemes", multiple=True, default=OrganizationPolicy().schemes, show_default=True, metavar="SCHEME",
        help="Scheme that organizationIdentifiers may have: PSD, VAT, NTR, LEI or xx:.",
    )  # fmt: skip
    @click.option(
        "--any-authority",
        is_flag=True,
        help="Accept an organizationIdentifier with another authority of its country than the PSD2 statement has.",
    )
    @wraps(command)
    def with_organizations(*args: Any, schemes: tuple[str, ...], any_authority: bool, **options: Any) -> Any:
        organizations = OrganizationPolicy(schemes=schemes, match_authority=not any_authority)
        return command(*args, organizations=organizations, **options)

    return with_organizations


def read_profile(text: str, *, files: bool = True) -> SealProfile:
    """Return the dialect with a name, or the one that a TOML file describes.

    Args:
        text: the name or file.
        files: accept files.

    Raises:
        click.BadParameter: there is no such dialect.
        FormatError, ConfigurationError: as `load_profile`.
    """
    if text in PROFILES:
        return PROFILES[text]
    if files and text.endswith(".toml"):
        with reading(text):
            return load_profile(Path(text))
    known = f"{'neither a file FILE.toml nor' if files else 'not'} one of {', '.join(PROFILES)}"
    raise click.BadParameter(f"{text!r} is {known}{did_you_mean(text, PROFILES)}")


def trust_facts(path: TrustedPath | None, status: QualifiedStatus | None, material: TrustMaterial) -> dict[str, object]:
    """Return what is known about revocation, one line for each certificate of a chain, and what the trusted lists state."""
    known = [f"{one.certificate.subject}: {one.state}{_source(one)}" for one in path.revocation] if path else []
    facts: dict[str, object] = {"revocation": (known or "not proven") if material.revocation else NOT_ASKED}
    if status is not None:
        listing = status.listing
        service = f", {listing.instance.name} ({listing.issuer.trusted_list.territory})" if listing else ""
        facts["trusted_list"] = f"qualified for {', '.join(status.qualified_for) or 'nothing'}{service}"
    return facts


def trust_object(path: TrustedPath | None, status: QualifiedStatus | None, material: TrustMaterial) -> dict[str, Any]:
    """Return the same for JSON; null for what was not asked or not proven."""
    revocation = [_status_object(one) for one in path.revocation] if path and material.revocation else None
    listed = status and {
        "code": status.code,
        "qualified_for": list(status.qualified_for),
        "with_device": status.with_device,
        **listing_object(status.listing),
    }
    return {"revocation": revocation, "trusted_list": listed}


def listing_object(listing: Listing | None) -> dict[str, Any]:
    """Return the service of a trusted list that decides about a certificate, for JSON."""
    return {
        "service": listing and listing.instance.name,
        "provider": listing and listing.issuer.provider.name,
        "territory": listing and listing.issuer.trusted_list.territory,
        "status": listing and listing.instance.status,
        "status_since": listing and format_time(listing.instance.since),
    }


def _source(status: CertificateStatus) -> str:
    return f", {status.answer.source} of {format_time(status.answer.this_update)}" if status.answer else ""


def _status_object(status: CertificateStatus) -> dict[str, Any]:
    answer = status.answer
    times = {name: getattr(answer, name, None) for name in ("this_update", "next_update", "produced_at", "revoked_at")}
    return {
        "subject": str(status.certificate.subject),
        "state": status.state.value,
        "source": answer and answer.source.value,
        "evidence_sha256": answer and answer.sha256,
        **{name: at and format_time(at) for name, at in times.items()},
        "signer": answer and str(answer.signer.subject),
        "reason": answer and answer.reason,
    }
