"""Options of several commands of `tppkit pki`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import wraps
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from tppkit.cli.output import read_time
from tppkit.testpki import Provider, make_provider
from tppkit.testpki.profiles import QWAC_POLICIES
from tppkit.testpki.provider import (
    DEFAULT_DNS_NAME,
    DEFAULT_NAME,
    DEFAULT_ORGANIZATION_IDENTIFIER,
    DEFAULT_ROLES,
    make_provider_like,
)

_Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
# The names of the options for the provider, as parameters of a command.
PROVIDER = ("org_id", "name", "country", "nca_name", "roles", "dns")


class _PathOnly(click.Path):
    """A path that is not `-`, because the command needs a file or folder."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | Path:  # as click.Path declares it
        if str(value) == "-":
            self.fail("- is a stream; give a path (a folder of that name is ./-)", param, ctx)
        return super().convert(value, param, ctx)  # type: ignore[return-value]


path_only = _PathOnly(path_type=Path)
pki_argument = click.argument("directory", type=path_only, metavar="DIR")
day_option = click.option(
    "--at", metavar="TIME", callback=read_time, help="Valid from midnight UTC of this day; today by default."
)
qscd_option = click.option("--qscd", is_flag=True, help="QSealCs state a qualified device.")


def policy_option(*, default: str | None) -> _Decorator:
    """Return the option for the policy of QWACs; None uses that of the PKI."""
    return click.option(
        "--policy", default=default, show_default=default is not None, type=click.Choice([*QWAC_POLICIES]),
        help="Policy of QWACs: for payment services only (gen), or for browsers too (ev).",
    )  # fmt: skip


def provider_options(*, of_folder: bool = False) -> _Decorator:
    """Return the options for the provider, as the parameter `provider_of`.

    It is a function that makes the provider: from the options only, or with `of_folder` also from the provider of a PKI.
    """

    def default(value: str) -> str | None:
        return None if of_folder else value

    whose = "; that of the PKI by default." if of_folder else "."
    # fmt: off

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        @click.option("--org-id", default=default(DEFAULT_ORGANIZATION_IDENTIFIER), show_default=True, metavar="ID",
                      help=f"organizationIdentifier{whose}")
        @click.option("--name", default=default(DEFAULT_NAME), show_default=True, help=f"The organisation's name{whose}")
        @click.option("--country", metavar="CC", help="Two letters; that of the organizationIdentifier by default.")
        @click.option("--nca-name", metavar="NAME", help="The competent authority's name.")
        @click.option("--roles", default=default(",".join(DEFAULT_ROLES)), show_default=True,
                      help=f"PSD2 roles, separated by commas{whose}")
        @click.option("--dns", default=default(DEFAULT_DNS_NAME), show_default=True, metavar="NAME",
                      help=f"The QWAC's DNS name{whose}")
        @wraps(command)
        def with_provider(*args: Any, **options: Any) -> Any:
            given = {name: options.pop(name) for name in PROVIDER}
            return command(*args, provider_of=lambda pki_provider=None: _make_provider(given, pki_provider), **options)

        return with_provider

    # fmt: on
    return add


def _make_provider(given: Mapping[str, str | None], pki_provider: Provider | None) -> Provider:
    """Make the provider that the options name.

    Raises:
        ConfigurationError: As `make_provider`.
    """
    roles = given["roles"]
    options: dict[str, Any] = {
        "organization_identifier": given["org_id"],
        "name": given["name"],
        "country": given["country"],
        "nca_name": given["nca_name"],
        "roles": None if roles is None else [role.strip() for role in roles.split(",") if role.strip()],
        "dns_name": given["dns"],
    }
    return make_provider(**options) if pki_provider is None else make_provider_like(pki_provider, **options)


def reject_options(names: Collection[str], *, because: str) -> None:
    """Reject options of the running command that would have no effect.

    Args:
        names: Their names as parameters.
        because: The reason, for the message.

    Raises:
        click.UsageError: One of them was given.
    """
    context = click.get_current_context()
    given = [
        option.opts[0]
        for option in context.command.params
        if option.name in names and context.get_parameter_source(option.name) is not ParameterSource.DEFAULT
    ]
    if given:
        raise click.UsageError(f"{', '.join(given)}: {because}")
