"""Options of several commands of `tppkit pki`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import wraps
from pathlib import Path
from typing import Any

import click

from tppkit.cli.output import read_time
from tppkit.testpki import Provider, make_provider
from tppkit.testpki.profiles import QWAC_POLICIES
from tppkit.testpki.provider import EXAMPLE

# The names of the options for the provider, as parameters of a command.
PROVIDER = ("org_id", "name", "country", "nca_name", "roles", "dns")

pki_argument = click.argument("directory", type=click.Path(path_type=Path), metavar="DIR")
day_option = click.option(
    "--at", metavar="TIME", callback=read_time, help="Valid from midnight UTC of this day; today by default."
)
qscd_option = click.option("--qscd", is_flag=True, help="QSealCs state a qualified device.")
policy_option = click.option(
    "--policy",
    type=click.Choice([*QWAC_POLICIES]),
    help="Policy of QWACs: for payment services only (gen, the default of a new PKI), or for browsers too (ev).",
)


def provider_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for the provider, as the parameter `provider_of`.

    It is a function that makes the provider: one like a given provider, that of a PKI, or else one like the default.
    """

    # fmt: off
    @click.option("--org-id", metavar="ID",
                  help=f"organizationIdentifier; that of the PKI, or {EXAMPLE.organization_identifier.text}, by default.")
    @click.option("--name", help=f"The organisation's name; that of the PKI, or {EXAMPLE.name}, by default.")
    @click.option("--country", metavar="CC", help="Two letters; that of the organizationIdentifier by default.")
    @click.option("--nca-name", metavar="NAME", help="The competent authority's name.")
    @click.option("--roles", metavar="ROLE,...",
                  help=f"PSD2 roles, separated by commas; those of the PKI, or {','.join(EXAMPLE.roles)}, by default.")
    @click.option("--dns", metavar="NAME", help=f"The QWAC's DNS name; that of the PKI, or {EXAMPLE.dns_name}, by default.")
    @wraps(command)
    def with_provider(*args: Any, **options: Any) -> Any:
        given = {name: options.pop(name) for name in PROVIDER}
        roles = given["roles"]

        def provider_of(provider: Provider | None = None) -> Provider:
            return make_provider(
                like=provider or EXAMPLE,
                organization_identifier=given["org_id"],
                name=given["name"],
                country=given["country"],
                nca_name=given["nca_name"],
                roles=None if roles is None else [role.strip() for role in roles.split(",") if role.strip()],
                dns_name=given["dns"],
            )

        return command(*args, provider_of=provider_of, **options)

    # fmt: on
    return with_provider


def reject_options(names: Collection[str], *, because: str) -> None:
    """Reject options of the running command that would have no effect.

    Args:
        names: Their names as parameters; none has a default.
        because: The reason, for the message.

    Raises:
        click.UsageError: One of them was given.
    """
    context = click.get_current_context()
    own = {str(option.name): option.opts[0] for option in context.command.params}
    given = [own[name] for name in own if name in names and context.params.get(name) not in (None, False)]
    if given:
        raise click.UsageError(f"{', '.join(given)}: {because}")
