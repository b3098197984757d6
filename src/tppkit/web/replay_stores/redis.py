"""Uses of ids in Redis: for several hosts. Needs the extra `redis`.

Redis forgets what it lost with its memory, and under an eviction policy other than `noeviction` also what it holds; a replay is
then handled as new.
"""

from __future__ import annotations

from typing import Any

from tppkit._extras import missing_extra
from tppkit.web.replay import Bounds, Claim, Verdict, unavailable

PREFIX = "tppkit:request-id:"

# Redis sweeps up so much later than the window ends, because the hosts' clocks differ.
_LONGER_MS = 60_000

# One script a call, because Redis runs a script alone. Times are written by us; Redis only sweeps up.
_CLAIM = """
local use = redis.call('HMGET', KEYS[1], 'digest', 'first', 'claimed', 'answer', 'attempt')
local attempt = ARGV[2]
if use[5] and tonumber(use[5]) >= tonumber(attempt) then attempt = string.format('%.0f', tonumber(use[5]) + 1) end
if use[1] and tonumber(use[2]) > tonumber(ARGV[3]) then
  if use[1] ~= ARGV[1] then return {'other'} end
  if use[4] then return {'same', use[4]} end
  if tonumber(use[3]) > tonumber(ARGV[4]) then return {'running'} end
  redis.call('HSET', KEYS[1], 'claimed', ARGV[2], 'attempt', attempt)
  return {'again', attempt}
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'digest', ARGV[1], 'first', ARGV[2], 'claimed', ARGV[2], 'attempt', attempt)
redis.call('PEXPIRE', KEYS[1], ARGV[5])
return {'first', attempt}
"""
_SETTLE = """
local use = redis.call('HMGET', KEYS[1], 'attempt', 'answer')
if use[1] ~= ARGV[1] or use[2] then return 0 end
if ARGV[2] == '1' then redis.call('HSET', KEYS[1], 'answer', ARGV[3]) else redis.call('HSET', KEYS[1], 'claimed', '0') end
return 1
"""


class RedisReplayStore:
    """A store in a Redis server.

    Args:
        url: its address, `redis://…`.
        prefix: of every key.

    Raises:
        ConfigurationError: `extra.missing`.
        TransportError: `replay.unavailable`, when a call finds no server.
    """

    blocking = True

    def __init__(self, url: str, *, prefix: str = PREFIX) -> None:
        try:
            import redis
        except ImportError as e:
            raise missing_extra("redis", e) from e
        self._redis = redis
        self._client: Any = redis.Redis.from_url(url, socket_timeout=5, socket_connect_timeout=5)
        self._prefix = prefix
        self._claim = self._client.register_script(_CLAIM)
        self._settle = self._client.register_script(_SETTLE)

    def claim(self, key: bytes, digest: bytes, bounds: Bounds) -> Claim:
        """See `ReplayStore.claim`."""
        window_ms = (bounds.at - bounds.forget) // 1000
        told, *more = self._run(
            self._claim, key, [digest, bounds.at, bounds.forget, bounds.free, window_ms + _LONGER_MS]
        )
        verdict = Verdict(told.decode())
        if verdict in (Verdict.FIRST, Verdict.AGAIN):
            return Claim(verdict, attempt=int(more[0]))
        return Claim(verdict, more[0] if more else None)

    def settle(self, key: bytes, attempt: int, answer: bytes | None) -> None:
        """See `ReplayStore.settle`."""
        self._run(self._settle, key, [attempt, int(answer is not None), answer or b""])

    def purge(self, *, forget: int, limit: int) -> int:
        """Nothing: Redis forgets by itself."""
        return 0

    def close(self) -> None:
        """Close every connection; the next call opens one again."""
        self._client.close()

    def _run(self, script: Any, key: bytes, arguments: list[Any]) -> Any:
        try:
            return script(keys=[self._prefix + key.hex()], args=arguments)
        except (self._redis.RedisError, OSError) as e:
            raise unavailable("Redis", e) from e
