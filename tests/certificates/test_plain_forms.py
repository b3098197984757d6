"""What is read quickly because nearly all certificates write it alike is what the general readers read.

Each table of usual encodings is emptied in turn for the general reading, so both are the code that runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tppkit.certificates import EidasCertificate, der, extensions, key_facts, names, psd2_statement, qcstatements
from tppkit.certificates.qcstatements import read_qc_statements
from tppkit.errors import FormatError

COLLECTED = Path(__file__).parents[3] / "shared" / "data" / "certificates"
TABLES = (
    (extensions, "_PLAIN_OIDS"), (key_facts, "_USUAL"), (names, "_X520"), (psd2_statement, "_PLAIN_ROLES"),
    (qcstatements, "_PLAIN"),
)  # fmt: skip
QC_STATEMENTS = bytes.fromhex("06082b06010505070103")


@contextmanager
def only_general_readers() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module, table in TABLES:
            patch.setattr(module, table, {})
        patch.setattr(psd2_statement, "_PLAIN_TAGS", ())
        yield


def outcome(read: Callable[[], object]) -> object:
    """What is read, or why not."""
    EidasCertificate._remembered.cache_clear()
    try:
        value = read()
        return value, getattr(value, "findings", None), str(getattr(value, "subject", ""))
    except FormatError as e:
        return e.code, e.message, e.offset


def assert_read_alike(read: Callable[[], object]) -> None:
    plain = outcome(read)
    with only_general_readers():
        assert outcome(read) == plain


@pytest.fixture(scope="module")
def qwacs(pki) -> list[bytes]:
    """Ours, and with the shared data those that others wrote."""
    return [
        pki.qwac.certificate.der,
        pki.qseal.certificate.der,
        *(p.read_bytes() for p in sorted(COLLECTED.glob("*/*.der"))),
    ]


def test_every_certificate_reads_alike(qwacs):
    for data in qwacs:
        assert_read_alike(lambda data=data: EidasCertificate.from_der(data))


@given(
    choice=st.integers(0, 10_000),
    edits=st.lists(st.tuples(st.integers(1, 4000), st.integers(0, 255)), min_size=1, max_size=3),
)
def test_a_certificate_with_changed_bytes_reads_alike(qwacs, choice, edits):
    data = bytearray(qwacs[choice % len(qwacs)])
    for place, value in edits:  # from the end of the extensions, where the signature of the usual keys begins
        data[-(64 + place) % len(data)] = value
    assert_read_alike(lambda: EidasCertificate.from_der(bytes(data)))


def test_a_certificate_with_any_one_byte_changed_reads_alike(qwacs):
    data = qwacs[0]
    for place in range(200, len(data) - 64):  # names, key and extensions
        for value in {0x00, 0x1F, 0x81, 0xFF, data[place] - 1 & 0xFF, data[place] + 1 & 0xFF}:
            changed = data[:place] + bytes([value]) + data[place + 1 :]
            assert_read_alike(lambda changed=changed: EidasCertificate.from_der(changed))


@given(choice=st.integers(0, 10_000), place=st.integers(0, 400), change=st.binary(max_size=3), cut=st.integers(0, 3))
def test_qc_statements_with_changed_bytes_read_alike(qwacs, choice, place, change, cut):
    with_statements = [data for data in qwacs if QC_STATEMENTS in data]
    data = with_statements[choice % len(with_statements)]
    value = qc_value(data)
    at = place % len(value)
    assert_read_alike(lambda: read_qc_statements(value[:at] + change + value[at + cut :]))


def qc_value(data: bytes) -> bytes:
    """The extension's content, found by its identifier: OCTET STRING { content }."""
    octets = der.read_element(data, data.index(QC_STATEMENTS) + len(QC_STATEMENTS), len(data))
    return data[octets.start : octets.end]


@pytest.mark.parametrize(
    "value",
    [
        "3010" + "3008060604008e460101" + "020100" + "020100",
        "3014" + "3008060604008e460101" * 2,
        "300a3008060604008e460101",
    ],
    ids=["a stranger beside it", "twice", "alone"],
)
def test_a_plain_statement_reads_alike_in_every_place(value):
    assert_read_alike(lambda: read_qc_statements(bytes.fromhex(value)))
