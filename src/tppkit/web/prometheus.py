"""A `Count` that Prometheus scrapes.

gate = SealGate(PSD2, qwacs=qwacs, seals=seals, count=make_count("gate"))
"""

from __future__ import annotations

from tppkit._extras import needs_extra
from tppkit.errors import ConfigurationError
from tppkit.metrics import BUCKETS_S, Count, require_name

with needs_extra("prometheus"):
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram


def make_count(name: str, *, registry: CollectorRegistry = REGISTRY) -> Count:
    """Make the counter `tppkit_<name>_total{outcome,code}` and the histogram `tppkit_<name>_seconds{outcome}`.

    Gates may share one, or each has a name of its own.

    Args:
        name: lower-case letters, digits and `_`, for example `gate`.
        registry: where both are registered.

    Raises:
        ConfigurationError: `metrics.name`, it is malformed, or already registered.

    Example:
        gate = SealGate(PSD2, qwacs=qwacs, seals=seals, count=make_count("gate"))
    """
    prefix = f"tppkit_{require_name(name)}"
    try:
        total = Counter(prefix, f"{name}: by outcome and code", ["outcome", "code"], registry=registry)
        spent = Histogram(
            f"{prefix}_seconds", f"{name}: seconds by outcome", ["outcome"], registry=registry, buckets=BUCKETS_S
        )
    except ValueError as e:
        raise ConfigurationError("metrics.name", f"{prefix} is registered already: {e}") from e

    children = dict[tuple[str, str], tuple[Counter, Histogram]]()  # to find them by labels takes longer than to count

    def count(outcome: str, code: str, seconds: float, /) -> None:
        if (found := children.get((outcome, code))) is None:
            found = children[outcome, code] = total.labels(outcome, code), spent.labels(outcome)
        found[0].inc()
        found[1].observe(seconds)

    return count
