"""Process events that may be delivered more than once: each takes effect exactly once, and in order.

The done flag of an entry is committed in the same transaction as its effect.

This package is independent of the sender: an entry has a source, a key, a version and content. `tppkit.inbox.store` stores entries
in SQLite or PostgreSQL and needs the extra `sqlalchemy`.
"""

from tppkit.inbox.entries import Entry, Failure, InboxError, Outcome, Version, Worked
from tppkit.inbox.settings import Retention, Retries, Worker

__all__ = ["Entry", "Failure", "InboxError", "Outcome", "Retention", "Retries", "Version", "Worked", "Worker"]
