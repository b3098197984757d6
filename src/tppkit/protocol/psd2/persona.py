"""Personas: the PSD2 interface with the manners of another bank, from a file in TOML.

    based_on = "berlin-group"
    name = "our-bank"
    source = "the bank's documentation, read on 2026-11-29"
    prefix = "/berlingroup/v1"

    [refusals]
    "role.missing" = [403, "ROLE_INVALID"]

The files of `personas/` have every key with an explanation: `document` is the PSD2 document itself, `berlin-group` follows the
guidelines of the Berlin Group. A persona is read once. Its interface has rows of its own only where the bank differs.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files

from tppkit._encoding import shown
from tppkit._files import FilePath, read_bounded
from tppkit._text import did_you_mean
from tppkit.errors import ConfigurationError
from tppkit.protocol.endpoint import Interface, RequiredHeader
from tppkit.protocol.psd2.persona_file import ANSWERS, MAX_PERSONA_BYTES, PREFIX_FORM, PersonaFault, read_persona
from tppkit.protocol.psd2.persona_rows import adapted_interface
from tppkit.protocol.psd2.rules import BankRules

_FOLDER = files("tppkit.protocol.psd2").joinpath("personas")
#: The personas of banks that the package has.
PERSONAS = ("document", "berlin-group")
"""The names of the shipped personas; `document` is the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Persona:
    """A bank's manners.

    Attributes:
        name: short name.
        source: where the bank's documents show them.
        profile: the name of its dialect of seals.
        prefix: what its paths begin with, for example `/psd2/v1`.
        answers: how the bank signs its answers: `none`, `rfc9421` or `cavage`.
        rules: what the bank decides by itself.
        interface: its endpoints and errors.

    Example:
        persona = load_persona("our-bank.toml")
        client = Psd2Client(base_url, identity=identity, persona=persona)
    """

    name: str
    source: str
    profile: str
    prefix: str
    rules: BankRules
    interface: Interface
    answers: str = ANSWERS[0]

    @property
    def signs_answers(self) -> bool:
        """Whether the bank signs its answers."""
        return self.answers != ANSWERS[0]

    def changed(self, *, rules: BankRules | None = None, prefix: str | None = None) -> Persona:
        """Return the persona with other rules, or with another beginning of its paths.

        Args:
            rules: replaces all of its rules.
            prefix: an absolute path without a slash at its end, or empty.

        Raises:
            ConfigurationError: `persona.prefix`.
        """
        found = self if rules is None else replace(self, rules=rules)
        if prefix is None or prefix == self.prefix:
            return found
        if not PREFIX_FORM.fullmatch(prefix):
            raise ConfigurationError("persona.prefix", f"{shown(prefix)} is neither empty nor a path such as /psd2/v1")
        rows = [replace(row, path=prefix + row.path.removeprefix(self.prefix)) for row in self.interface.endpoints]
        return replace(found, prefix=prefix, interface=replace(self.interface, endpoints=tuple(rows)))

    def requiring(self, headers: Mapping[str, str]) -> Persona:
        """Return the persona with further headers that every request must have, each with what the client sends by itself."""
        if not headers:
            return self
        further = tuple(RequiredHeader(*one) for one in headers.items())
        rows = [replace(row, headers=(*row.headers, *further)) for row in self.interface.endpoints]
        return replace(self, interface=replace(self.interface, endpoints=tuple(rows)))


def load_persona(persona: Persona | FilePath, *, dialects: Collection[str] = ()) -> Persona:
    """Return a persona.

    Args:
        persona: the name of a shipped one, the path of a file (a text with `.toml` or a slash), or a persona, which is returned.
        dialects: the names that its seal profile may have; empty does not check it.

    Raises:
        ConfigurationError: `persona.unknown`; `persona.invalid`, with every fault of the file and its line.
        FormatError: `file.unreadable`, `file.too-large`.
    """
    if isinstance(persona, Persona):
        return persona
    name = os.fspath(persona)
    if name in PERSONAS:
        return _shipped(name)
    if isinstance(persona, str) and not (name.endswith(".toml") or os.sep in name):
        raise ConfigurationError(
            "persona.unknown",
            f"{shown(name)} is neither a file FILE.toml nor one of {', '.join(PERSONAS)}{did_you_mean(name, PERSONAS)}",
        )
    return parse_persona(read_bounded(persona, max_bytes=MAX_PERSONA_BYTES), dialects=dialects)


def parse_persona(raw: bytes, *, dialects: Collection[str] = ()) -> Persona:
    """Parse a persona.

    Args:
        raw: TOML in UTF-8, at most 64 KiB.
        dialects: as in `load_persona`.

    Raises:
        ConfigurationError: `persona.invalid`, with every fault and its line.
    """
    found, faults = read_persona(raw, shipped=_base, dialects=dialects)
    if found is None:
        count = "a fault" if len(faults) == 1 else f"{len(faults)} faults"
        raise ConfigurationError("persona.invalid", f"the persona has {count}: {'; '.join(map(str, faults))}")
    return Persona(
        name=found.name, source=found.source, profile=found.profile, prefix=found.prefix, rules=found.rules,
        interface=adapted_interface(found), answers=found.answers,
    )  # fmt: skip


def check_persona(raw: bytes, *, dialects: Collection[str] = ()) -> tuple[PersonaFault, ...]:
    """Return every fault of a file, by line; empty for a persona. Arguments are those of `parse_persona`."""
    return read_persona(raw, shipped=_base, dialects=dialects)[1]


def persona_text(name: str) -> str:
    """Return the file of a shipped persona.

    Raises:
        ConfigurationError: `persona.unknown`.
    """
    load_persona(name)
    return _base(name).decode()


def _base(name: str) -> bytes:
    return _FOLDER.joinpath(f"{name}.toml").read_bytes()


@lru_cache(maxsize=len(PERSONAS))
def _shipped(name: str) -> Persona:
    return parse_persona(_base(name))
