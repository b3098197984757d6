"""The Merkle tree of a stream against the example of RFC 6962's authors and a direct reading of its definition."""

from __future__ import annotations

import hashlib

import pytest
from audits import root_from_path
from hypothesis import given
from hypothesis import strategies as st

from tppkit.errors import FormatError
from tppkit.evidence.tree import Frontier, inclusion_path, parent, subtrees

# Source: google/certificate-transparency, cpp/merkletree/merkle_tree_test.cc (inputs and roots of the first 1 to 8 leaves).
INPUTS = ("", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f")
ROOTS = (
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
)
sizes = st.integers(0, 70)


def leaves(size: int) -> list[bytes]:
    return [hashlib.sha256(bytes((0, number))).digest() for number in range(size)]


def tree_hash(nodes: list[bytes]) -> bytes:
    """MTH of RFC 6962 section 2.1, as it is defined there."""
    if len(nodes) < 2:
        return nodes[0] if nodes else hashlib.sha256().digest()
    half = 1 << (len(nodes) - 1).bit_length() - 1
    return parent(tree_hash(nodes[:half]), tree_hash(nodes[half:]))


def frontier(nodes: list[bytes]) -> Frontier:
    made = Frontier()
    for node in nodes:
        made.add(node)
    return made


def test_roots_of_the_published_example():
    made = Frontier()
    for text, root in zip(INPUTS, ROOTS, strict=True):
        made.add(hashlib.sha256(b"\0" + bytes.fromhex(text)).digest())
        assert made.root().hex() == root


@given(sizes)
def test_a_root_is_that_of_the_definition(size):
    assert frontier(leaves(size)).root() == tree_hash(leaves(size))


@given(st.lists(st.integers(1, 9), max_size=8))
def test_the_subtrees_of_segments_join_to_the_root(lengths):
    nodes, made, start = leaves(sum(lengths)), Frontier(), 0
    for length in lengths:
        found = subtrees(start, nodes[start : start + length])
        assert len(found) <= 2 * (start + length).bit_length()
        for level, node in found:
            made.join(level, node)
        start += length
    assert (made.size, made.root()) == (len(nodes), tree_hash(nodes))


@given(st.data())
def test_a_path_proves_its_leaf_and_no_other(data):
    size = data.draw(st.integers(1, 70))
    start = data.draw(st.integers(0, size - 1))
    index = data.draw(st.integers(start, size - 1))
    nodes, root = leaves(size), tree_hash(leaves(size))
    path = inclusion_path(index, size, before=frontier(nodes[:start]), leaves=nodes[start:])
    assert root_from_path(nodes[index], index, size, path) == root
    assert root_from_path(bytes(32), index, size, path) != root
    assert all(root_from_path(nodes[index], other, size, path) != root for other in range(size) if other != index)


@pytest.mark.parametrize(
    "call",
    [
        lambda: Frontier(3, [bytes(32)]),
        lambda: Frontier(1, [b"short"]),
        lambda: Frontier(1, [bytes(32)]).join(1, bytes(32)),
        lambda: inclusion_path(0, 2, before=Frontier(1, [bytes(32)]), leaves=[bytes(32)]),
        lambda: inclusion_path(1, 3, before=Frontier(1, [bytes(32)]), leaves=[bytes(32)]),
    ],
)
def test_what_does_not_fit_together_is_refused(call):
    with pytest.raises(FormatError) as caught:
        call()
    assert caught.value.code == "tree.malformed"
