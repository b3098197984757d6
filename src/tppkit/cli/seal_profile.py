"""How commands take a dialect: the name of a built-in one, or a TOML file with one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tppkit._text import did_you_mean
from tppkit.seals import PROFILES, SealProfile, load_profile


class ProfileType(click.ParamType):  # type: ignore[type-arg]  # generic in the stubs only
    """A dialect.

    Args:
        files: a file is accepted too.
    """

    name = "profile"

    def __init__(self, *, files: bool = True) -> None:
        self._files = files

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """As the help shows it."""
        return "NAME|FILE.toml" if self._files else "NAME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> SealProfile:
        """The row of a name or file."""
        if isinstance(value, SealProfile):
            return value
        if value in PROFILES:
            return PROFILES[value]
        if not (self._files and value.endswith(".toml")):
            known = f"{'neither a file FILE.toml nor' if self._files else 'not'} one of {', '.join(PROFILES)}"
            self.fail(f"{value!r} is {known}{did_you_mean(value, PROFILES)}", param, ctx)
        return load_profile(Path(value))


PROFILE = ProfileType()
PROFILE_NAME = ProfileType(files=False)
HELP = f"The bank's dialect: a TOML file with your own, or one of {', '.join(PROFILES)}."
