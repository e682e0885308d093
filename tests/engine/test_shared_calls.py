"""Subjects that send equal requests: one pays, and a failure is nobody else's."""

from __future__ import annotations

import asyncio

import pytest

from assay.core.errors import ModelError
from assay.core.types import Call, Failure, Response
from assay.engine.shared_calls import SharedCalls

KEY = ("case", "ask", "hash", 0)


class Endpoint:
    """Answers when it is told to, or fails."""

    def __init__(self, *, failures: int = 0) -> None:
        self.sent = 0
        self.go = asyncio.Event()
        self._failures = failures

    async def send(self) -> tuple[Response, int, float]:
        self.sent += 1
        number = self.sent
        await self.go.wait()
        if number <= self._failures:
            raise ModelError(Failure("server_error", "down"))
        return Response(f"reply {number}"), 1, 0.5


def test_equal_requests_in_flight_are_sent_once() -> None:
    async def main() -> None:
        shared, endpoint = SharedCalls(), Endpoint()
        tasks = [asyncio.create_task(shared.get(KEY, endpoint.send)) for _ in range(3)]
        await asyncio.sleep(0)
        endpoint.go.set()
        replies = await asyncio.gather(*tasks)
        assert [(response.text, attempts, seconds) for response, attempts, seconds in replies] == [
            ("reply 1", 1, 0.5),
            ("reply 1", 0, 0.5),
            ("reply 1", 0, 0.5),
        ]
        assert (await shared.get(KEY, endpoint.send))[1] == 0
        assert endpoint.sent == 1

    asyncio.run(main())


def test_a_failed_or_cancelled_request_is_sent_by_the_next() -> None:
    async def main() -> None:
        shared, endpoint = SharedCalls(), Endpoint(failures=2)
        first, second, third = (asyncio.create_task(shared.get(KEY, endpoint.send)) for _ in range(3))
        await asyncio.sleep(0)
        first.cancel()
        endpoint.go.set()
        results = await asyncio.gather(first, second, third, return_exceptions=True)
        assert isinstance(results[0], asyncio.CancelledError)
        assert isinstance(results[1], ModelError)
        assert isinstance(results[2], tuple)
        assert (results[2][0].text, endpoint.sent) == ("reply 3", 3)

    asyncio.run(main())


def test_replies_of_earlier_starts_are_found_and_old_ones_are_forgotten() -> None:
    async def main() -> None:
        logged = Call(0, "case", "s", "m", "ask", 1, "hash", 0, None, Response("logged"), None, 1, 2.0)
        endpoint = Endpoint()
        endpoint.go.set()
        earlier = SharedCalls(lambda *key: logged if key == KEY else None)
        assert await earlier.get(KEY, endpoint.send) == (Response("logged"), 0, 2.0)
        small = SharedCalls(max_bytes=20)
        for number in (1, 2, 1):
            await small.get(("case", "ask", f"hash {number}", 0), endpoint.send)
        assert endpoint.sent == 3

    asyncio.run(main())


@pytest.mark.parametrize("other", [("other", "ask", "hash", 0), ("case", "ask", "hash", 1)])
def test_another_case_or_a_repeated_request_is_another_call(other: tuple[str, str, str, int]) -> None:
    async def main() -> None:
        shared, endpoint = SharedCalls(), Endpoint()
        endpoint.go.set()
        await shared.get(KEY, endpoint.send)
        await shared.get(other, endpoint.send)
        assert endpoint.sent == 2

    asyncio.run(main())
