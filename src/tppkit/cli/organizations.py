"""The options that name the organisations whose certificates a command accepts."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from tppkit.certificates import OrganizationPolicy


def organization_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --org-scheme and --any-authority to a command, which gets them as `organizations`."""

    @click.option(
        "--org-scheme", "schemes", multiple=True, default=OrganizationPolicy().schemes, show_default=True, metavar="SCHEME",
        help="Scheme that organizationIdentifiers may have: PSD, VAT, NTR, LEI or xx:.",
    )  # fmt: skip
    @click.option(
        "--any-authority",
        is_flag=True,
        help="Let an organizationIdentifier name another authority of its country than the PSD2 statement.",
    )
    @wraps(command)
    def with_organizations(*args: Any, schemes: tuple[str, ...], any_authority: bool, **options: Any) -> Any:
        organizations = OrganizationPolicy(schemes=schemes, match_authority=not any_authority)
        return command(*args, organizations=organizations, **options)

    return with_organizations
