"""Options of several commands of `tppkit pki`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from tppkit.certificates import EidasRequest, read_sources
from tppkit.certificates.sources import MAX_SOURCE_BYTES
from tppkit.cli.output import read_input, read_time
from tppkit.errors import FormatError
from tppkit.testpki import Provider, make_provider
from tppkit.testpki.profiles import QWAC_POLICIES
from tppkit.testpki.provider import DEFAULT_DNS_NAME, DEFAULT_NAME, DEFAULT_ORGANIZATION_IDENTIFIER, DEFAULT_ROLES

_Command = TypeVar("_Command", bound=Callable[..., Any])
# Their names as parameters of a command.
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
day_option = click.option(
    "--at", metavar="TIME", callback=read_time, help="Valid from midnight UTC of this day; today by default."
)
qscd_option = click.option("--qscd", is_flag=True, help="QSealCs state a qualified device.")


def policy_option(*, default: str | None) -> Callable[[_Command], _Command]:
    """Return the option for the policy of QWACs; None uses that of the PKI."""
    return click.option(
        "--policy", default=default, show_default=default is not None, type=click.Choice([*QWAC_POLICIES]),
        help="Policy of QWACs: for payment services only (gen), or for browsers too (ev).",
    )  # fmt: skip


def provider_options(*, of_folder: bool = False) -> Callable[[_Command], _Command]:
    """Return the options for the provider: by default an example provider, or that of the PKI in the folder."""

    def default(value: str) -> str | None:
        return None if of_folder else value

    whose = "; that of the PKI by default." if of_folder else "."
    roles = ",".join(DEFAULT_ROLES)
    # fmt: off
    options = (
        click.option("--org-id", default=default(DEFAULT_ORGANIZATION_IDENTIFIER), show_default=True, metavar="ID",
                     help=f"organizationIdentifier{whose}"),
        click.option("--name", default=default(DEFAULT_NAME), show_default=True, help=f"The organisation's name{whose}"),
        click.option("--country", metavar="CC", help="Two letters; that of the organizationIdentifier by default."),
        click.option("--nca-name", metavar="NAME", help="The competent authority's name."),
        click.option("--roles", default=default(roles), show_default=True, help=f"PSD2 roles, separated by commas{whose}"),
        click.option("--dns", default=default(DEFAULT_DNS_NAME), show_default=True, metavar="NAME",
                     help=f"The QWAC's DNS name{whose}"),
    )
    # fmt: on

    def add(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def provider_from(org_id: str, name: str, country: str | None, nca_name: str | None, roles: str, dns: str) -> Provider:
    """Make the provider that these options name.

    Raises:
        ConfigurationError: As `make_provider`.
    """
    return make_provider(
        organization_identifier=org_id,
        name=name,
        country=country,
        roles=split_roles(roles),
        nca_name=nca_name,
        dns_name=dns,
    )


def split_roles(roles: str) -> list[str]:
    """Split the roles of an option."""
    return [role.strip() for role in roles.split(",") if role.strip()]


def reject_options(names: Collection[str], *, because: str) -> None:
    """Reject options of the running command that would have no effect.

    Args:
        names: Their names as parameters.
        because: The reason, for the message.

    Raises:
        click.UsageError: One of them was given.
    """
    options = click.get_current_context().command.params
    given = [option.opts[0] for option in options if option.name in names and is_given(option.name)]
    if given:
        raise click.UsageError(f"{', '.join(given)}: {because}")


def is_given(name: str) -> bool:
    """Return whether an option of the running command, by its name as parameter, was given."""
    return click.get_current_context().get_parameter_source(name) is not ParameterSource.DEFAULT


def read_request(name: str) -> EidasRequest:
    """Read the first certificate request of a file, or of standard input for `-`.

    Raises:
        FormatError: `certificate.not-found`, `file.unreadable`, and those of `EidasRequest.from_der`.
    """
    for source in read_sources(read_input(name, max_bytes=MAX_SOURCE_BYTES)):
        if source.kind == "csr":
            return EidasRequest.from_der(source.der)
    raise FormatError("certificate.not-found", f"{name} contains no certificate request")
