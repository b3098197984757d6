"""Where an inbox keeps callbacks. Each store is imported from its own module, which needs no more than that store does.

| module | store | promise |
|---|---|---|
| `stores.memory` | `MemoryStore` | until-exit |
| `stores.sqlite` | `SqliteStore` | exactly-once |
| `stores.postgresql` | `PostgresqlStore`, `AsyncPostgresqlStore` | exactly-once |
| `stores.sqlalchemy` | `SqlalchemyStore`, `AsyncSqlalchemyStore` | exactly-once |
| `stores.redis` | `RedisStore`, `AsyncRedisStore` | at-least-once |
"""

from tppkit.callbacks.stores.entry import Entry, Failure, Lifetimes, Order, Outcome, Promise, Taken
from tppkit.callbacks.stores.store import AsyncStore, Store

__all__ = ["AsyncStore", "Entry", "Failure", "Lifetimes", "Order", "Outcome", "Promise", "Store", "Taken"]
