"""What was revoked, put on hold and released in a test PKI's folder: a journal, one entry an act.

The last act about a certificate counts; that a hold was lifted is told by the reason `removeFromCRL`, as in delta CRLs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from tppkit._clock import format_time, parse_time
from tppkit._encoding import parse_json
from tppkit._files import read_bounded
from tppkit.errors import ConfigurationError, FormatError
from tppkit.testpki.crl import NO_LONGER, REASONS, Revocation

REVOCATIONS = "revocations.json"
_MAX_BYTES = 4 * 1024 * 1024
_SERIAL = re.compile(r"[0-9A-Fa-f]{1,40}")  # RFC 5280 section 4.1.2.2: not negative, at most 20 octets

# The acts about the certificates of each issuer, by its label, in their order.
Journal = Mapping[str, tuple[Revocation, ...]]


def read_journal(path: Path) -> Journal:
    """The journal of a folder; an empty one where nothing was revoked yet.

    Raises:
        ConfigurationError: `pki.unusable`.
    """
    file = path / REVOCATIONS
    if not file.exists():
        return MappingProxyType({})
    try:
        raw = parse_json(read_bounded(file, max_bytes=_MAX_BYTES), what=REVOCATIONS, max_bytes=_MAX_BYTES)
        return MappingProxyType({label: tuple(map(_act, acts)) for label, acts in raw.items()})
    except (FormatError, AttributeError, KeyError, TypeError, ValueError) as e:
        raise ConfigurationError("pki.unusable", f"{file} cannot be read") from e


def _act(entry: Mapping[str, str]) -> Revocation:
    if entry["reason"] not in REASONS:
        raise ValueError("an unknown reason")
    if not _SERIAL.fullmatch(entry["serial_hex"]):
        raise ValueError("no serial number")
    at = parse_time(entry["at"]).replace(microsecond=0)  # a list says no fractions
    if not 1950 <= at.year < 9900:  # what a list can say, with a next update behind it
        raise ValueError("no time that a list can say")
    return Revocation(int(entry["serial_hex"], 16), at, entry["reason"])


def journal_json(journal: Journal) -> bytes:
    """The journal as it is written."""
    lines = {
        label: [{"serial_hex": f"{act.serial:X}", "at": format_time(act.at), "reason": act.reason} for act in acts]
        for label, acts in journal.items()
    }
    return (json.dumps(lines, indent=2) + "\n").encode()


def with_act(journal: Journal, label: str, act: Revocation) -> Journal:
    """The journal with one more act about a certificate of the issuer of that label."""
    return MappingProxyType({**journal, label: (*journal.get(label, ()), act)})


def revoked_by(journal: Journal) -> Mapping[str, tuple[Revocation, ...]]:
    """What is revoked after all acts, by the label of its issuer."""
    last = {label: {act.serial: act for act in acts} for label, acts in journal.items()}
    return MappingProxyType(
        {label: tuple(act for act in acts.values() if act.reason != NO_LONGER) for label, acts in last.items()}
    )
