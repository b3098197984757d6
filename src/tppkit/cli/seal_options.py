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
from tppkit.errors import FormatError
from tppkit.httpsig.components import Origin, parse_origin
from tppkit.seals import PROFILES, SealProfile, load_profile


class ProfileType(click.ParamType):  # type: ignore[type-arg]  # generic in the stubs only
    """A dialect: the name of a built-in one, or a TOML file.

    Args:
        files: accept files.

    Example:
        click.option("--profile", type=ProfileType(files=False))
    """

    name = "profile"

    def __init__(self, *, files: bool = True) -> None:
        self._files = files

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """Return the value's form for the help."""
        return "NAME|FILE.toml" if self._files else "NAME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> SealProfile:
        """Return the dialect of a name or file."""
        if isinstance(value, SealProfile):
            return value
        if value in PROFILES:
            return PROFILES[value]
        if not (self._files and value.endswith(".toml")):
            known = f"{'neither a file FILE.toml nor' if self._files else 'not'} one of {', '.join(PROFILES)}"
            self.fail(f"{value!r} is {known}{did_you_mean(value, PROFILES)}", param, ctx)
        return load_profile(Path(value))


class _OriginType(click.ParamType):  # type: ignore[type-arg]  # generic in the stubs only
    name = "url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Origin:
        return value if isinstance(value, Origin) else read_origin(value, "--origin")


class _CertificateType(click.ParamType):  # type: ignore[type-arg]  # generic in the stubs only
    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> EidasCertificate:
        return value if isinstance(value, EidasCertificate) else read_bundle(value, None).leaf


PROFILE = ProfileType()
ORIGIN = _OriginType()
CERTIFICATE = _CertificateType()
PROFILE_HELP = f"The bank's dialect: your own TOML file, or one of {', '.join(PROFILES)}."


def read_origin(text: str, option: str) -> Origin:
    """Parse an origin such as `https://bank.example:8443`.

    Args:
        text: the option's value.
        option: the option's name.

    Raises:
        click.BadParameter: the text is not an origin.
    """
    try:
        return parse_origin(text)
    except FormatError as e:
        raise click.BadParameter(e.message, param_hint=option) from e


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
