"""Read a dialect from a TOML file.

    based_on = "berlin-group"
    name = "our-bank"
    covered = ["(request-target)", "date", "digest", "x-request-id"]
    digest_algorithm = "SHA-512"
    source = "letter from the bank, 2026-05-04"

    [key_id]
    form = "serial"
    radix = "decimal"

Each key is a field of `SealProfile`, or of `KeyIdStyle` under `key_id`. Durations are whole seconds, members of enumerations are
in lower case. `based_on` names the row of `PROFILES` with the defaults for absent keys.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import timedelta
from enum import Enum
from typing import Any

from tppkit._encoding import shown
from tppkit._files import FilePath, read_bounded
from tppkit._text import did_you_mean
from tppkit.errors import FormatError
from tppkit.seals.certificate_header import CertificateForm
from tppkit.seals.key_id import KeyIdForm, KeyIdStyle, Radix
from tppkit.seals.profile import EmptyBody, Format, Order, SealProfile
from tppkit.seals.profiles import PROFILES

MAX_PROFILE_BYTES = 64 * 1024
_ENUMERATIONS: Mapping[str, type[Enum]] = {
    "order": Order, "empty_body": EmptyBody, "certificate_form": CertificateForm, "format": Format, "form": KeyIdForm,
    "radix": Radix,
}  # fmt: skip
_LISTS = frozenset({"covered", "covered_if_present", "required", "digest_algorithms"})
_SPANS = frozenset({"expires_after", "max_age"})
_FLAGS = frozenset(
    {
        "only_these", "digest_required", "signature_quoted", "sends_x5c", "issuer_optional", "percent", "unknown_as_text", "root_first",
        "drops_newlines",
    }
)  # fmt: skip
_ABSENT = frozenset({"request_id", "certificate_header"})  # `false` means that the dialect has none
_MAX_SPAN_S = 366 * 24 * 3600


def load_profile(path: FilePath) -> SealProfile:
    """Load a dialect from a file.

    Raises:
        FormatError: `file.unreadable`, `file.too-large`, and those of `parse_profile`.
        ConfigurationError: see `SealProfile`.
    """
    return parse_profile(read_bounded(path, max_bytes=MAX_PROFILE_BYTES))


def parse_profile(raw: bytes) -> SealProfile:
    """Parse a dialect.

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
    values = _read_table(table, SealProfile)
    if base is None:
        missing = {"name", "covered", "source"}.difference(values)
        if missing:
            raise FormatError("profile.file", f"the profile has no {', '.join(sorted(missing))}, and no based_on")
        return SealProfile(**values, key_id=KeyIdStyle(**_read_table(style, KeyIdStyle)))
    if "name" not in values:
        raise FormatError("profile.file", f"the profile based on {base.name} needs its own name")
    return replace(base, **values, key_id=replace(base.key_id, **_read_table(style, KeyIdStyle)))


def _read_base(name: object) -> SealProfile | None:
    if name is None:
        return None
    if not isinstance(name, str) or name not in PROFILES:
        raise FormatError(
            "profile.file",
            f"based_on is {shown(str(name))}, not one of {', '.join(PROFILES)}{did_you_mean(str(name), PROFILES)}",
        )
    return PROFILES[name]


def _read_table(table: Mapping[str, object], row: type[SealProfile | KeyIdStyle]) -> dict[str, Any]:
    known = {field.name for field in fields(row)} - {"key_id"}
    values = {}
    for key, value in table.items():
        if key not in known:
            raise FormatError(
                "profile.file", f"{shown(key)} is not a key of a profile; known keys are {', '.join(sorted(known))}"
            )
        values[key] = _read_value(key, value)
    return values


def _read_value(key: str, value: object) -> object:
    if key in _ENUMERATIONS and isinstance(value, str):
        members = {name.lower(): member for name, member in _ENUMERATIONS[key].__members__.items()}
        if value in members:
            return members[value]
        raise FormatError("profile.file", f"{key} is {shown(value)}, not one of {', '.join(members)}")
    if key in _SPANS and type(value) is int and 0 < value <= _MAX_SPAN_S:
        return timedelta(seconds=value)
    if key in _FLAGS and isinstance(value, bool):
        return value
    if key in _LISTS and isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    if key == "algorithms" and isinstance(value, list) and all(_is_pair(item) for item in value):
        return tuple([tuple(item) for item in value])
    if key in _ABSENT and value is False:
        return None
    if isinstance(value, str) and key not in _LISTS | _SPANS | _FLAGS | {"algorithms"}:
        return value
    raise FormatError("profile.file", f"{key} is of the wrong type: {shown(str(value))}")


def _is_pair(item: object) -> bool:
    return isinstance(item, list) and len(item) == 2 and all(isinstance(text, str) for text in item)
