"""Segments that other programs read: our kernel in Arrow, and DuckDB."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tppkit.errors import FormatError
from tppkit.evidence import AuditPlan
from tppkit.evidence.arrow import RESULTS, verify_batch
from tppkit.testpki import certificate_pem


@pytest.fixture
def plan(tmp_path, pki, make_verified):
    (tmp_path / "trust.pem").write_bytes(b"".join(certificate_pem(each) for each in pki.authorities))
    return AuditPlan(now=make_verified(9).at, trust=str(tmp_path / "trust.pem"))


def test_records_are_verified_in_any_order_and_with_binary_of_any_length(sealed, plan):
    folder, _ = sealed
    table = pq.read_table(sorted((folder / "segments").glob("*.parquet"))).take([5, 0, 3])
    free = pa.schema([
        pa.field(field.name, pa.binary() if pa.types.is_fixed_size_binary(field.type) else field.type) for field in table.schema
    ])  # fmt: skip
    for one in (table, table.cast(free), table.slice(0, 0)):
        found = verify_batch(
            one.combine_chunks().to_batches()[0] if one.num_rows else pa.RecordBatch.from_pylist([], one.schema),
            plan=plan,
            archive=folder,
        )
        assert found.schema == RESULTS
        expected = [(5, "passed"), (0, "passed"), (3, "passed")][: one.num_rows]
        assert list(zip(found["seq"].to_pylist(), found["verdict"].to_pylist(), strict=True)) == expected
    changed = table.set_column(table.schema.get_field_index("body"), "body", pa.array([b"x"] * 3))
    assert verify_batch(changed.to_batches()[0], plan=plan, archive=folder)["code"].to_pylist() == ["record.body"] * 3


def test_other_columns_are_rejected(sealed, plan):
    for batch in (pa.RecordBatch.from_pylist([{"seq": 1}]), pa.RecordBatch.from_pylist([], pa.schema([]))):
        with pytest.raises(FormatError, match="does not have the columns of a segment"):
            verify_batch(batch, plan=plan, archive=sealed[0])
