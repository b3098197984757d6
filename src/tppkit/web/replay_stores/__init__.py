"""Where a replay guard keeps the ids that were used. Each store is imported from its own module.

| module | store | shared by |
|---|---|---|
| `replay_stores.memory` | `MemoryReplayStore` | the threads of a process; gone with it |
| `replay_stores.sqlite` | `SqliteReplayStore` | the processes of a host |
| `replay_stores.postgresql` | `PostgresqlReplayStore` | hosts |
| `replay_stores.redis` | `RedisReplayStore` | hosts; gone with Redis's memory |
"""
