"""A `Count` that OpenTelemetry exports.

gate = SealGate(PSD2, qwacs=qwacs, seals=seals, count=make_count("gate"))
"""

from __future__ import annotations

from tppkit._extras import needs_extra
from tppkit.metrics import BUCKETS_S, Count, require_name

with needs_extra("opentelemetry"):
    from opentelemetry.metrics import Meter, get_meter


def make_count(name: str, *, meter: Meter | None = None) -> Count:
    """Make the counter `tppkit.<name>` and the histogram `tppkit.<name>.duration`, with `outcome`; the counter also with `code`.

    Gates may share one, or each has a name of its own.

    Args:
        name: lower-case letters, digits and `_`, for example `gate`.
        meter: makes both; by default that of the global provider, which your program configures.

    Raises:
        ConfigurationError: `metrics.name`, it is malformed.

    Example:
        gate = SealGate(PSD2, qwacs=qwacs, seals=seals, count=make_count("gate"))
    """
    prefix, maker = f"tppkit.{require_name(name)}", meter or get_meter("tppkit")
    total = maker.create_counter(prefix, description=f"{name}: by outcome and code")
    # The boundaries that the SDK has by default are for milliseconds.
    spent = maker.create_histogram(
        f"{prefix}.duration", "s", f"{name}: seconds by outcome", explicit_bucket_boundaries_advisory=BUCKETS_S
    )

    def count(outcome: str, code: str, seconds: float, /) -> None:
        total.add(1, {"outcome": outcome, "code": code})
        spent.record(seconds, {"outcome": outcome})

    return count
