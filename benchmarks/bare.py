"""What the work costs without a harness: asyncio, aiohttp and orjson, exact match, a JSONL log, no more.

`bare.py DATA CONCURRENCY OUTPUT URL [STEPS]` prints accuracy and count. With several steps each question is
asked again, every time with the answer before. Uses uvloop where installed.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any

import aiohttp
import orjson

try:
    from uvloop import new_event_loop
except ImportError:
    from asyncio import new_event_loop

_HEADERS = {"Content-Type": "application/json", "Authorization": "Bearer bench-key"}


class Script:
    """One run."""

    def __init__(self, data: Path, concurrency: int, output: Path, url: str, steps: int) -> None:
        self._items = iter([orjson.loads(line) for line in data.read_bytes().splitlines()])
        self._concurrency = concurrency
        self._log = output.open("ab")
        self._url = f"{url}/chat/completions"
        self._steps = steps
        self._lines: list[bytes] = []
        self._right = 0
        self._count = 0

    async def run(self) -> str:
        """Ask everything."""
        connector = aiohttp.TCPConnector(limit=self._concurrency)
        async with aiohttp.ClientSession(connector=connector) as session:
            flusher = asyncio.create_task(self._flush_often())
            await asyncio.gather(*[self._worker(session) for _ in range(self._concurrency)])
            flusher.cancel()
        self._flush()
        os.fsync(self._log.fileno())
        return f"{self._right / self._count} {self._count}"

    async def _worker(self, session: aiohttp.ClientSession) -> None:
        for item in self._items:
            started = time.time()
            question, replies = item["question"], []
            for _ in range(self._steps):
                replies.append(await self._ask(session, question))
                answer = replies[-1]["choices"][0]["message"]["content"].strip()
                question = f"{item['question']} An earlier answer was {answer}."
            right = answer == item["answer"]
            self._right += right
            self._count += 1
            row = {**item, "output": replies, "score": right, "started": started, "ended": time.time()}
            self._lines.append(orjson.dumps(row))

    async def _ask(self, session: aiohttp.ClientSession, question: str) -> Any:
        messages = [{"role": "user", "content": question}]
        body = orjson.dumps({"model": "fake", "messages": messages, "temperature": 0, "max_tokens": 16})
        async with session.post(self._url, data=body, headers=_HEADERS) as reply:
            reply.raise_for_status()
            return orjson.loads(await reply.read())

    async def _flush_often(self) -> None:
        while True:
            await asyncio.sleep(0.1)
            self._flush()

    def _flush(self) -> None:
        if self._lines:
            self._log.write(b"\n".join(self._lines) + b"\n")
            self._log.flush()
            self._lines.clear()


async def main() -> None:
    data, concurrency, output, url, *steps = sys.argv[1:]
    script = Script(Path(data), int(concurrency), Path(output), url, int(steps[0]) if steps else 1)
    print(await script.run())


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main())
