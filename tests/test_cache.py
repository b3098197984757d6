"""The map with a limit."""

from concurrent.futures import ThreadPoolExecutor

from tppkit._cache import Cache


def filled(limit: int, keys: str) -> Cache[str, str]:
    cache = Cache[str, str](limit)
    for key in keys:
        cache.put(key, key.upper())
    return cache


def test_a_new_key_replaces_the_oldest_one():
    cache = filled(2, "abc")
    assert cache.values() == ("B", "C")
    assert len(cache) == 2
    assert "a" not in cache
    assert cache.get("a") is None
    assert cache.get("b") == "B"


def test_a_key_that_is_put_again_is_the_newest():
    cache = filled(2, "ab")
    cache.put("a", "again")
    cache.put("c", "C")
    assert cache.values() == ("again", "C")


def test_a_key_that_is_read_does_not_become_newer():
    cache = filled(2, "ab")
    cache.get("a")
    cache.put("c", "C")
    assert cache.values() == ("B", "C")


def test_a_removed_key_makes_room():
    cache = filled(2, "ab")
    assert cache.pop("a") == "A"
    assert cache.pop("a") is None
    cache.put("c", "C")
    assert cache.values() == ("B", "C")


def test_a_cleared_cache_is_false():
    cache = filled(2, "ab")
    cache.clear()
    assert not cache


def test_threads_never_exceed_the_limit():
    cache = Cache[int, int](8)

    def work(start: int) -> int:
        most = 0
        for number in range(start, start + 2000):
            cache.put(number % 50, number)
            cache.pop(number % 7)
            cache.get(number % 50)
            most = max(most, len(cache.values()))
        return most

    with ThreadPoolExecutor(4) as threads:
        assert max(threads.map(work, range(0, 8000, 2000))) <= 8
