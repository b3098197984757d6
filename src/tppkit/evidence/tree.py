"""The Merkle tree over the leaves of a stream: its root, the subtrees of a segment, and proofs that a record is in it.

The leaf hash of a record already is a leaf of RFC 6962, so one tree covers all records of a stream, in their order.

    frontier = Frontier()
    for leaf in leaves:
        frontier.add(leaf)
    frontier.root()

Source: RFC 6962 section 2.1.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from tppkit.errors import FormatError

HASH_BYTES = 32
_EMPTY = hashlib.sha256().digest()


class Frontier:
    """The complete subtrees over the first `size` leaves, the largest first: all that a root needs.

        frontier = Frontier()
        frontier.add(leaf)
        root = frontier.root()

    Attributes:
        size: the number of leaves.
        hashes: the roots of the subtrees, 32 bytes each; one for each bit that is set in `size`, the highest first.
    """

    def __init__(self, size: int = 0, hashes: Iterable[bytes] = ()) -> None:
        """Continue after `size` leaves.

        Raises:
            FormatError: `tree.malformed`, the number of hashes does not fit the size, or a hash does not have 32 bytes.
        """
        self.size, self.hashes = size, list(hashes)
        if size < 0 or len(self.hashes) != size.bit_count() or any(len(node) != HASH_BYTES for node in self.hashes):
            raise FormatError("tree.malformed", f"{len(self.hashes)} subtrees do not make a tree of {size} leaves")

    def add(self, leaf: bytes) -> None:
        """Add one leaf hash."""
        self.join(0, leaf)

    def join(self, level: int, subtree: bytes) -> None:
        """Add a complete subtree of 2**level leaves.

        Raises:
            FormatError: `tree.malformed`, the tree does not end at a multiple of 2**level.
        """
        width = 1 << level
        if self.size % width or len(subtree) != HASH_BYTES:
            raise FormatError("tree.malformed", f"a subtree of {width} leaves cannot follow {self.size} leaves")
        # Each set bit from `level` on is a left sibling that becomes complete.
        node, carried = subtree, self.size >> level
        while carried & 1:
            node = parent(self.hashes.pop(), node)
            carried >>= 1
        self.hashes.append(node)
        self.size += width

    def root(self) -> bytes:
        """Return the root over all leaves so far."""
        if not self.hashes:
            return _EMPTY
        *left, node = self.hashes
        for sibling in reversed(left):
            node = parent(sibling, node)
        return node


def parent(left: bytes, right: bytes) -> bytes:
    """Return the hash of two subtrees."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def subtrees(start: int, leaves: Sequence[bytes]) -> tuple[tuple[int, bytes], ...]:
    """Return the complete aligned subtrees over leaves from `start` on, in their order, as (level, hash).

    Joined to the frontier of the first `start` leaves, they give the frontier after the last: at most two for each level.

    Args:
        start: the place of the first leaf in the stream.
        leaves: leaf hashes, 32 bytes each.
    """
    found: list[tuple[int, bytes]] = []
    for index, leaf in enumerate(leaves, start):
        level, node = 0, leaf
        # The left sibling is complete here only if it begins at or after `start`.
        while index >> level & 1 and found and found[-1][0] == level:
            node = parent(found.pop()[1], node)
            level += 1
        found.append((level, node))
    return tuple(found)


def inclusion_path(index: int, size: int, *, before: Frontier, leaves: Sequence[bytes]) -> tuple[bytes, ...]:
    """Return the hashes that prove one leaf against the root over `size` leaves, from the bottom up.

    Args:
        index: the place of the leaf.
        size: the number of leaves under the root.
        before: the frontier of the leaves before `leaves`.
        leaves: the leaf hashes from `before.size` to `size`.

    Raises:
        FormatError: `tree.malformed`, the leaf is not among `leaves`, or they do not end at `size`.
    """
    if not before.size <= index < size or before.size + len(leaves) != size:
        raise FormatError("tree.malformed", f"leaf {index} is not between {before.size} and {size}")
    levels = [level for level in reversed(range(before.size.bit_length())) if before.size >> level & 1]
    known = dict(zip(levels, before.hashes, strict=True))
    row = {before.size + number: leaf for number, leaf in enumerate(leaves)}  # the nodes of one level by their place
    path = []
    last, level = size - 1, 0
    while last:
        if level in known:  # ends where `before` does, rounded down to its own width
            row[(before.size >> level) - 1] = known[level]
        sibling = index ^ 1
        if sibling <= last:
            path.append(row[sibling])
        row = {place >> 1: _above(row, place, last) for place in row if place % 2 == 0 or place - 1 in row}
        index, last, level = index >> 1, last >> 1, level + 1
    return tuple(path)


def _above(row: dict[int, bytes], place: int, last: int) -> bytes:
    left = place & ~1
    return row[left] if left == last else parent(row[left], row[left + 1])
