"""Options about seals: dialect, certificates, origin, accepted organisations."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from tppkit._text import did_you_mean
from tppkit.certificates import EidasCertificate, OrganizationPolicy
from tppkit.cli.certificates import read_bundle
from tppkit.cli.output import reading
from tppkit.seals import PROFILES, SealProfile, load_profile

PROFILE_HELP = f"The bank's dialect: your own TOML file, or one of {', '.join(PROFILES)}."


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


def read_certificate(file: str) -> EidasCertificate:
    """Return the first certificate of a file, for options.

    Raises:
        UnreadableFile: as `read_bundle`.
    """
    return read_bundle(file, None).leaf


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
