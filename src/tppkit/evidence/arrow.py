"""The kernel of the audit in Arrow, for engines that read the segments themselves. Needs the extra `audit`.

    rows = spark.read.parquet("/mnt/evidence/segments/*.parquet")
    verified = rows.mapInArrow(lambda batches: (verify_batch(one, plan=plan, archive="/mnt/evidence") for one in batches), schema)

It knows no neighbours, so it finds no gaps: `audit_archives` compares segments with their manifests, and with heads.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from tppkit._extras import needs_extra
from tppkit._files import FilePath, as_path
from tppkit.errors import FormatError
from tppkit.evidence.checks import Checks
from tppkit.evidence.parquet import SCHEMA, from_table
from tppkit.evidence.runner import COLUMNS, AuditPlan, Endpoints, cells, load_material, make_checks

with needs_extra("audit"):
    import pyarrow as pa

RESULTS = pa.schema([(name, pa.int64() if name in ("seq", "http_status") else pa.string()) for name in COLUMNS])
"""The columns of `results.csv`."""


def verify_batch(batch: pa.RecordBatch, *, plan: AuditPlan, archive: FilePath) -> pa.RecordBatch:
    """Verify records, in any order, by every check that needs no neighbour.

        verify_batch(table.to_batches()[0], plan=plan, archive="evidence").column("verdict")

    Args:
        batch: records with the columns of a segment; binary may have any length, as other engines have no fixed one.
        plan: what records are judged by.
        archive: the folder with the certificates and answers of the records.

    Returns:
        A row for each record, with the columns `RESULTS`; `log_code` is null.

    Raises:
        ConfigurationError, FormatError, VerificationError: as `AuditPlan.load`; `record.malformed`, these are not such columns.
    """
    try:
        table = pa.Table.from_batches([batch]).select(SCHEMA.names).cast(SCHEMA)
    except (pa.ArrowException, KeyError) as e:
        raise FormatError(
            "record.malformed", f"the batch does not have the columns of a segment: {str(e)[:200]}"
        ) from e
    found = [cells(row) for row in _checks(plan, as_path(archive)).rows(from_table(table))]
    columns = zip(*found, strict=True) if found else [()] * len(RESULTS)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, RESULTS, strict=True)], schema=RESULTS
    )


@lru_cache(maxsize=4)
def _checks(plan: AuditPlan, archive: Path) -> Checks:
    return make_checks(archive, plan, load_material(plan), Endpoints(plan.endpoints))
