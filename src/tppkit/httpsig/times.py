"""Check the times of a signature: not in the future, not expired, not too old."""

from __future__ import annotations

from datetime import datetime, timedelta

from tppkit._clock import as_utc
from tppkit.errors import SignatureRejected

CLOCK_SKEW = timedelta(minutes=5)


def verify_times(
    created: int | None,
    expires: int | None,
    *,
    at: datetime,
    skew: timedelta = CLOCK_SKEW,
    max_age: timedelta | None = None,
    lifetime: timedelta | None = None,
) -> None:
    """Check the times of a signature, in seconds since 1970.

    Args:
        created: the time of signing, or None.
        expires: the end of validity, or None.
        at: the time to judge at, aware.
        skew: tolerated difference between the two clocks.
        max_age: maximum age; then `created` is required.
        lifetime: how long after `created`, and after `at`, `expires` may be, so that the sender cannot choose more.

    Raises:
        SignatureRejected: `signature.created`, `signature.expired`, `signature.lifetime`.
        ConfigurationError: `time.naive`.
    """
    now, slack = as_utc(at).timestamp(), skew.total_seconds()
    if created is not None and created > now + slack:
        raise SignatureRejected("signature.created", f"the signature is from the future: created={created}")
    if expires is not None and expires < now - slack:
        raise SignatureRejected("signature.expired", f"the signature has expired: expires={expires}")
    if expires is not None and lifetime is not None:
        begin = now if created is None else min(created, now)
        if expires > begin + lifetime.total_seconds() + slack:
            raise SignatureRejected(
                "signature.lifetime", f"expires={expires} exceeds the maximum lifetime of {lifetime}"
            )
    if max_age is None:
        return
    if created is None:
        raise SignatureRejected("signature.created", "the signature has no time of signing")
    if created < now - slack - max_age.total_seconds():
        raise SignatureRejected("signature.expired", f"the signature is older than {max_age}: created={created}")
