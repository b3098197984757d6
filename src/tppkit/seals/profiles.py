"""The known dialects of sealing, and the reader of dialects in TOML.

    based_on = "berlin-group"
    name = "our-bank"
    covered = ["(request-target)", "date", "digest", "x-request-id"]
    digest_algorithm = "SHA-512"
    source = "letter from the bank, 2026-05-04"

    [key_id]
    form = "serial"
    radix = "decimal"

Each key is a field of `SealProfile`, or of `KeyIdStyle` under `key_id`. Durations are whole seconds, members of enumerations are
in lower case, `false` means None. `based_on` names the row of `PROFILES` with the values for absent keys; if `source` is given, what
is said of the base's source does not apply.

The known dialects are the files of `dialects/`. `psd2-v1` is of the PSD2 document, `berlin-group` follows the guidelines exactly,
`cavage-12` is the last draft, with times. What a source leaves open is the guidelines' value, unless the file says otherwise, and is
listed in `assumed`. A bank may have changed its dialect since: derive your own.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from enum import Enum
from importlib.resources import files
from importlib.resources.abc import Traversable
from types import NoneType, UnionType
from typing import Any, get_args

from tppkit._encoding import shown
from tppkit._files import FilePath, read_bounded
from tppkit._text import did_you_mean
from tppkit.errors import ConfigurationError, FormatError
from tppkit.seals.field_types import is_of, types_of
from tppkit.seals.key_id import KeyIdStyle
from tppkit.seals.profile import SealProfile

MAX_PROFILE_BYTES = 64 * 1024
_MAX_SPAN_S = 366 * 24 * 3600
_OF_SOURCE = ("as_of", "read_on", "assumed")
_DIALECTS = files("tppkit.seals").joinpath("dialects")


def load_profile(path: FilePath) -> SealProfile:
    """Load a dialect from a file.

    Raises:
        FormatError: `file.unreadable`, `file.too-large`, and those of `parse_profile`.
        ConfigurationError: see `SealProfile`.
    """
    return parse_profile(read_bounded(path, max_bytes=MAX_PROFILE_BYTES))


def parse_profile(raw: bytes) -> SealProfile:
    """Parse a dialect.

        profile = parse_profile(files("our_bank").joinpath("seals.toml").read_bytes())

    Args:
        raw: TOML in UTF-8, at most 64 KiB.

    Raises:
        FormatError: `profile.file`, it is not TOML, or a key is unknown, missing or of the wrong type.
        ConfigurationError: see `SealProfile`.
    """
    if len(raw) > MAX_PROFILE_BYTES:
        raise FormatError("profile.file", f"a profile of {len(raw)} bytes is too long")
    try:
        table = tomllib.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as e:
        raise FormatError("profile.file", f"the profile is not TOML: {shown(str(e) or type(e).__name__)}") from None
    base = _read_base(table.pop("based_on", None))
    style = table.pop("key_id", {})
    if not isinstance(style, dict):
        raise FormatError("profile.file", "key_id must be a table: [key_id]")
    values, key_id = _read_table(table, SealProfile), _read_table(style, KeyIdStyle)
    if base is None:
        missing = {"name", "covered", "source"}.difference(values)
        if missing:
            raise FormatError("profile.file", f"the profile has no {', '.join(sorted(missing))}, and no based_on")
        return SealProfile(**values, key_id=KeyIdStyle(**key_id))
    if "name" not in values:
        raise FormatError("profile.file", f"the profile based on {base.name} needs its own name")
    if "source" in values:
        values = dict.fromkeys(_OF_SOURCE, "") | values
    return replace(base, **values, key_id=replace(base.key_id, **key_id))


def _read_base(name: object) -> SealProfile | None:
    if name is None:
        return None
    if not isinstance(name, str) or name not in PROFILES:
        raise FormatError(
            "profile.file",
            f"based_on is {shown(str(name))}, not one of {', '.join(PROFILES)}{did_you_mean(str(name), PROFILES)}",
        )
    return PROFILES[name]


def _read_table(table: Mapping[str, object], row: type) -> dict[str, Any]:
    known = {name: hint for name, hint in types_of(row).items() if name != "key_id"}
    unknown = next((key for key in table if key not in known), None)
    if unknown is not None:
        raise FormatError(
            "profile.file", f"{shown(unknown)} is not a key of a profile; known keys are {', '.join(sorted(known))}"
        )
    return {key: _read_value(key, value, known[key]) for key, value in table.items()}


def _read_value(key: str, value: object, hint: Any) -> object:
    kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    if value is False and NoneType in kinds:
        return None
    read = value
    if isinstance(value, list):
        read = tuple([tuple(item) if isinstance(item, list) else item for item in value])
    elif timedelta in kinds and type(value) is int and 0 < value <= _MAX_SPAN_S:
        read = timedelta(seconds=value)
    elif isinstance(hint, type) and issubclass(hint, Enum) and isinstance(value, str):
        members = {name.lower(): member for name, member in hint.__members__.items()}
        member = members.get(value.replace("-", "_"))
        if member is None:
            raise FormatError("profile.file", f"{key} is {shown(value)}, not one of {', '.join(members)}")
        read = member
    if not is_of(read, hint):
        raise FormatError("profile.file", f"{key} is of the wrong type: {shown(str(value))}")
    return read


class _Profiles(Mapping[str, SealProfile]):
    """The dialects in a folder of the package, each read at its first look-up."""

    def __init__(self, folder: Traversable) -> None:
        self._folder = folder
        names = [file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml")]
        self._names = tuple(sorted(names, key=lambda name: (name != "psd2-v1", name)))
        self._rows: dict[str, SealProfile] = {}

    def __getitem__(self, name: str) -> SealProfile:
        if name not in self._rows and name in self._names:
            self._rows.setdefault(name, parse_profile(self._folder.joinpath(f"{name}.toml").read_bytes()))
        return self._rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


PROFILES: Mapping[str, SealProfile] = _Profiles(_DIALECTS)
"""The known dialects by name; `psd2-v1` is the first."""

ANSWER_PROFILES: Mapping[str, SealProfile] = _Profiles(_DIALECTS.joinpath("answers"))
"""The dialects of banks' answers by name: `rfc9421` and `cavage`."""

PSD2_V1 = PROFILES["psd2-v1"]


def find_profile(profile: SealProfile | str) -> SealProfile:
    """Return a dialect, or the known one with a name.

    Raises:
        ConfigurationError: `profile.unknown`.
    """
    if isinstance(profile, SealProfile):
        return profile
    if profile not in PROFILES:
        near = did_you_mean(profile, PROFILES)
        raise ConfigurationError(
            "profile.unknown", f"the profile is {shown(profile)}, not one of {', '.join(PROFILES)}{near}"
        )
    return PROFILES[profile]
