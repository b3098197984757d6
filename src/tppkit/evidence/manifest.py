"""The manifest of a sealed part: what it contains and where it is in the log, in 0.5 to 1.5 KB of JSON.

A manifest is a function of its file and the manifests before it, so an audit writes it again and compares the bytes. Manifests are
never removed: all of them joined give the root, also where a part is damaged or was removed when its time of retention was over.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tppkit._encoding import parse_json
from tppkit._files import read_bounded, regular_only
from tppkit.errors import FormatError
from tppkit.evidence.heads import Head
from tppkit.evidence.tree import Frontier

SEGMENTS = "segments"
MAX_MANIFEST_BYTES = 64 * 1024
_VERSION = 1
_NAME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{12}")
_HEX = re.compile("[0-9a-f]{64}")
_STREAM = re.compile("[0-9a-f]{32}")
_MAX_LEVEL = 63


@dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest of a sealed part.

    Attributes:
        stream_id: the stream.
        first_seq: the place of its first record.
        records: the number of records.
        received_from: the earliest time of receipt, in microseconds since 1970.
        received_to: the latest.
        previous: leaf of the record before its first, hexadecimal.
        leaf: leaf of its last record, hexadecimal.
        subtrees: level and hash (hexadecimal) of the complete subtrees of its leaves, in their order.
        root: root of the tree at its end, hexadecimal.
        file: the name of its Parquet file.
        sha256: the hash of that file, hexadecimal.
    """

    stream_id: str
    first_seq: int
    records: int
    received_from: int
    received_to: int
    previous: str
    leaf: str
    subtrees: tuple[tuple[int, str], ...]
    root: str
    file: str
    sha256: str

    @property
    def end(self) -> int:
        """The place of the record after its last."""
        return self.first_seq + self.records

    @property
    def head(self) -> Head:
        """The head at its end."""
        return Head(self.stream_id, self.end, self.root)

    def has_subtrees(self, pieces: Sequence[tuple[int, bytes]]) -> bool:
        """Whether leaves with these subtrees are those of this part."""
        return self.subtrees == tuple((level, node.hex()) for level, node in pieces)

    def to_bytes(self) -> bytes:
        """Return the manifest as sorted JSON."""
        value = {
            "v": _VERSION, "stream_id": self.stream_id, "first_seq": self.first_seq, "records": self.records,
            "received_from": self.received_from, "received_to": self.received_to, "previous": self.previous, "leaf": self.leaf,
            "subtrees": [list(one) for one in self.subtrees], "root": self.root, "files": {self.file: self.sha256},
        }  # fmt: skip
        return (json.dumps(value, sort_keys=True, separators=(",", ":")) + "\n").encode()

    def join(self, frontier: Frontier) -> None:
        """Add its subtrees to the tree of the records before it.

        Raises:
            FormatError: `manifest.malformed`, they do not follow on, or do not give its end or its root.
        """
        try:
            if frontier.size != self.first_seq:
                raise FormatError("tree.malformed", f"it begins at record {self.first_seq}, not {frontier.size}")
            for level, node in self.subtrees:
                frontier.join(level, bytes.fromhex(node))
        except FormatError as e:
            raise FormatError(
                "manifest.malformed", f"the manifest of {self.file} does not follow on: {e.message}"
            ) from e
        if frontier.size != self.end or frontier.root().hex() != self.root:
            raise FormatError("manifest.malformed", f"the subtrees in the manifest of {self.file} do not give its root")


def read_manifest(path: Path) -> Manifest:
    """Read a manifest.

    Raises:
        FormatError: `file.unreadable`, `file.too-large`, `manifest.malformed`, `json.*`.
    """
    raw = read_bounded(path, max_bytes=MAX_MANIFEST_BYTES, opener=regular_only)
    value = parse_json(raw, what="the manifest", max_bytes=MAX_MANIFEST_BYTES)
    try:
        ((file, sha256),) = value["files"].items()
        manifest = Manifest(
            _text(_STREAM, value["stream_id"]), _number(value["first_seq"]), _number(value["records"]),
            _number(value["received_from"]), _number(value["received_to"]), _text(_HEX, value["previous"]), _text(_HEX, value["leaf"]),
            tuple((_number(level, _MAX_LEVEL), _text(_HEX, node)) for level, node in value["subtrees"]), _text(_HEX, value["root"]),
            file, _text(_HEX, sha256),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise FormatError("manifest.malformed", "the manifest lacks a member, or one has another type") from e
    if manifest.to_bytes() != raw:
        raise FormatError("manifest.malformed", "the manifest is not written as this version writes it")
    return manifest


def list_manifests(archive: Path, *, suffix: str = ".json") -> tuple[Path, ...]:
    """List the manifests of an archive in the order of their records, or the files of sealed parts with another suffix.

    Raises:
        OSError: a folder cannot be read.
    """
    folder = archive / SEGMENTS
    names = os.listdir(folder) if folder.is_dir() else []
    return tuple(
        folder / name
        for name in sorted(names, key=lambda name: name[8:])
        if name.endswith(suffix) and _NAME.fullmatch(name.removesuffix(suffix))
    )


def _number(value: Any, maximum: int = (1 << 63) - 1) -> int:
    if type(value) is not int or not 0 <= value <= maximum:
        raise ValueError("not a number")
    return value


def _text(form: re.Pattern[str], value: Any) -> str:
    if not isinstance(value, str) or not form.fullmatch(value):
        raise ValueError("not in its form")
    return value
