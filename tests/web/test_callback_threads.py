"""Threads of a gate's own: how much may wait for them."""

import asyncio
import threading

import pytest

from tppkit.errors import ConfigurationError, TransportError
from tppkit.web.callback_threads import CallThreads


async def given_up(threads, call):
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await threads.run(call)


def test_calls_that_nobody_awaits_any_more_count_until_they_leave_the_queue_and_are_not_begun():
    hanging, begun = threading.Event(), list[int]()

    async def flood():
        threads = CallThreads(1)
        await given_up(threads, hanging.wait)
        for _ in range(4):
            await given_up(threads, lambda: begun.append(1))
        with pytest.raises(TransportError) as refused:
            await threads.run(lambda: begun.append(1))
        assert refused.value.code == "transport.busy"
        hanging.set()
        async with asyncio.timeout(20):
            while True:
                try:
                    return await threads.run(lambda: "free again")
                except TransportError:
                    await asyncio.sleep(0.01)

    assert asyncio.run(flood()) == "free again"
    assert begun == []


def test_what_a_call_raises_is_raised_where_it_is_awaited():
    async def call():
        await CallThreads(1).run(lambda: 1 // 0)

    with pytest.raises(ZeroDivisionError):
        asyncio.run(call())


@pytest.mark.parametrize("size", [0, -1])
def test_less_than_one_thread_is_refused(size):
    with pytest.raises(ConfigurationError) as refused:
        CallThreads(size)
    assert refused.value.code == "web.setting"
