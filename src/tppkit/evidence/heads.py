"""The head of a log: how many records it has and the root of their Merkle tree, as text that another party keeps.

    tppkit.evidence/5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a
    3
    CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=

Source: C2SP tlog-checkpoint, the body of a checkpoint: origin, size and root, each on a line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tppkit._encoding import decode_base64, encode_base64
from tppkit.errors import FormatError
from tppkit.evidence.tree import HASH_BYTES

MAX_HEAD_BYTES = 4_096
_ORIGIN = "tppkit.evidence/"
_FORM = re.compile(
    rf"{re.escape(_ORIGIN)}([0-9a-f]{{32}})\n(0|[1-9][0-9]{{0,18}})\n([A-Za-z0-9+/=]{{44}})\n(\n.*)?", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a stream. Store it elsewhere to detect that records were cut off, or all of them rewritten.

        head = audit_archives(["evidence"], plan).heads[0]
        Path("head.txt").write_text(head.text)

    Attributes:
        stream_id: the stream, 32 hexadecimal digits.
        records: the number of records up to the last intact one; without a root, how many of them were read.
        root: root of the Merkle tree over all leaves, hexadecimal; None if a record before the last is missing or damaged.
        leaf: leaf hash of the last record, hexadecimal; None in a head that was read from text.
        archive: the archive's folder, or None.
    """

    stream_id: str
    records: int
    root: str | None
    leaf: str | None = None
    archive: Path | None = None

    @property
    def text(self) -> str:
        """The three lines.

        Raises:
            FormatError: `head.unknown`, the root is not known.
        """
        if self.root is None:
            raise FormatError(
                "head.unknown", "a record before the last one is missing or damaged, so the root is not known"
            )
        return f"{_ORIGIN}{self.stream_id}\n{self.records}\n{encode_base64(bytes.fromhex(self.root))}\n"


def parse_head(text: str) -> Head:
    """Parse the text of a head; signatures behind it are ignored.

    Raises:
        FormatError: `head.malformed`.
    """
    match = _FORM.fullmatch(text.replace("\r\n", "\n"))
    if match is None or len(text) > MAX_HEAD_BYTES:
        raise FormatError(
            "head.malformed", f"this is not a head: three lines, of which the first begins with {_ORIGIN}"
        )
    root = decode_base64(match[3], what="the root of the head")
    if len(root) != HASH_BYTES:
        raise FormatError("head.malformed", "the root of the head does not have 32 bytes")
    return Head(match[1], int(match[2]), root.hex())


def head_object(head: Head) -> dict[str, Any]:
    """Return a head for JSON."""
    archive = None if head.archive is None else str(head.archive)
    return {
        "archive": archive,
        "stream_id": head.stream_id,
        "records": head.records,
        "leaf": head.leaf,
        "root": head.root,
    }
