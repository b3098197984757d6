"""The audit on a Spark cluster, a task for each segment. Needs the extra `spark`, and a Java runtime.

    keys = run_audit(segments, plan, work=Path("/mnt/audit"), engine="spark")

The archive, the plan's files and the folder of the results are on storage that all machines have at the same paths.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tppkit._extras import needs_extra
from tppkit.evidence.runner import AuditPlan, audit_segment
from tppkit.evidence.segments import Segment

with needs_extra("spark"):
    import pyarrow as pa
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

_MAX_TASKS = 10_000
_LOGGER = logging.getLogger("tppkit.evidence")


def run_on_spark(
    segments: Sequence[tuple[int, Segment]], plan: AuditPlan, work: Path, *, plan_digest: str, resume: bool
) -> dict[int, str]:
    """Audit numbered segments in the Spark session of this process, and return the keys of those that Spark finished.

    A session that this function starts has the master of `spark-submit`, of Spark's configuration, or all cores of this machine.
    """
    spark = SparkSession.builder.appName("tppkit audit").getOrCreate()
    folder = work.absolute()

    def audit(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                segment = pickle.loads(row["segment"])  # noqa: S301  # this function wrote it
                key = audit_segment(segment, plan, folder, plan_digest=plan_digest, resume=resume)
                yield pa.RecordBatch.from_pylist([{"place": row["place"], "key": key}])

    rows = [(place, pickle.dumps(replace(segment, archive=segment.archive.absolute()))) for place, segment in segments]
    if rows:
        slices = spark.sparkContext.parallelize(rows, min(len(rows), _MAX_TASKS))
        tasks = spark.createDataFrame(slices, "place long, segment binary")
        try:
            return dict(map(tuple, tasks.mapInArrow(audit, "place long, key string").collect()))
        except PySparkException as e:
            _LOGGER.warning("Spark ended with an error; this machine verifies what is left: %s", str(e)[:500])
    return {}
