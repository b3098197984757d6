"""How commands on seals take certificates and origins."""

from __future__ import annotations

from typing import Any

import click

from tppkit.certificates import EidasCertificate
from tppkit.cli.certificates import read_bundle
from tppkit.errors import FormatError
from tppkit.httpsig.components import Origin, parse_origin


def read_origin(text: str, option: str) -> Origin:
    """Read `https://bank.example:8443`.

    Args:
        text: as it was given.
        option: that it was given to.

    Raises:
        click.BadParameter: it is no origin.
    """
    try:
        return parse_origin(text)
    except FormatError as e:
        raise click.BadParameter(e.message, param_hint=option) from e


class _OriginType(click.ParamType):  # type: ignore[type-arg]  # generic in the stubs only
    """Scheme and host of an address."""

    name = "url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Origin:
        """The origin of a text."""
        return value if isinstance(value, Origin) else read_origin(value, "--origin")


class _CertificateType(click.ParamType):  # type: ignore[type-arg]  # generic in the stubs only
    """A certificate: of a bundle, the first one."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> EidasCertificate:
        """The certificate of a file."""
        return value if isinstance(value, EidasCertificate) else read_bundle(value, None).leaf


ORIGIN = _OriginType()
CERTIFICATE = _CertificateType()
