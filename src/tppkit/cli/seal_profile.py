"""How commands take a dialect: the name of a built-in one, or a TOML file with one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tppkit._text import did_you_mean
from tppkit.seals import PROFILES, SealProfile, load_profile


class ProfileType(click.ParamType):  # type: ignore[type-arg]  # generic in the stubs only
    """A dialect."""

    name = "profile"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """As the help shows it."""
        return "NAME|FILE.toml"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> SealProfile:
        """The row of a name or file."""
        if isinstance(value, SealProfile):
            return value
        if value in PROFILES:
            return PROFILES[value]
        if not value.endswith(".toml"):
            known = ", ".join(PROFILES)
            self.fail(
                f"{value!r} is neither a file FILE.toml nor one of {known}{did_you_mean(value, PROFILES)}", param, ctx
            )
        return load_profile(Path(value))


PROFILE = ProfileType()
HELP = f"The bank's dialect: a TOML file with your own, or one of {', '.join(PROFILES)}."
