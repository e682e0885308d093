"""The program of the child process: reads requests, groups them into batches, and writes replies.

It is started with `python -m assay.models.transformers.worker`, speaks the messages of `protocol.py` over stdin and
stdout, and ends when its stdin is closed. A thread reads, the main thread computes. Whenever the model is free, the
oldest waiting request is computed together with others like it, so an idle model never waits for company.
"""

from __future__ import annotations

import math
import os
import threading
import traceback
from collections.abc import Callable
from typing import BinaryIO

from assay.core.errors import ModelError
from assay.models.transformers.engine import TransformersEngine
from assay.models.transformers.jobs import Job, LoadProblem, describe_error
from assay.models.transformers.protocol import (
    CancelWork,
    ChildNote,
    FromChild,
    GenerateText,
    LoadModel,
    MeasureText,
    TextMeasured,
    WorkFailed,
    WorkStarted,
    decode_to_child,
    encode,
)

_NOT_FINITE = (
    "the log-likelihood is {}, which is not a finite number. float16 has none below -65504: try --model-args "
    "dtype=float32, or dtype=bfloat16. If the number stays, the model's weights are damaged, or they exclude a token "
    "of the text"
)


class Inbox:
    """Requests that have arrived and were not taken. The reading thread fills it."""

    def __init__(self, pipe: BinaryIO) -> None:
        self._pipe = pipe
        self._condition = threading.Condition()
        self._arrived: list[GenerateText | MeasureText] = []
        # Numbers are never used again, and few requests are cancelled, so the set is never cleared.
        self._cancelled: set[int] = set()

    def read_forever(self) -> None:
        """Read lines until the pipe is closed, then end the process at once, also in the middle of a computation."""
        for line in self._pipe:
            with self._condition:
                for message in decode_to_child(line):
                    if isinstance(message, CancelWork):
                        self._cancelled.add(message.id)
                    elif not isinstance(message, LoadModel):
                        self._arrived.append(message)
                self._condition.notify()
        os._exit(0)

    def take(self, *, wait: bool) -> list[GenerateText | MeasureText]:
        """Return the requests that have arrived. With `wait`, return at least one."""
        with self._condition:
            while wait and not self._arrived:
                self._condition.wait()
            arrived, self._arrived = self._arrived, []
            return arrived

    def is_cancelled(self, request_id: int) -> bool:
        """Return whether the reply to this request is not needed any more."""
        return request_id in self._cancelled


class Worker:
    """Computes requests in batches. `limit` is the largest batch; it is halved when memory runs out."""

    def __init__(self, engine: TransformersEngine, inbox: Inbox, replies: BinaryIO, limit: int) -> None:
        self._engine = engine
        self._inbox = inbox
        self._replies = replies
        self._limit = limit
        self._waiting: list[Job] = []

    def run(self) -> None:
        """Compute requests until the process ends."""
        while True:
            self._prepare(self._inbox.take(wait=not self._waiting))
            jobs = self._next_jobs()
            if jobs:
                self._send(WorkStarted([job.id for job in jobs]))
                self._compute(jobs)

    def _prepare(self, messages: list[GenerateText | MeasureText]) -> None:
        """Tokenize requests. One that cannot be computed is answered at once."""
        for message in messages:
            try:
                self._waiting.append(self._engine.prepare(message))
            except ModelError as error:
                self._fail(message.id, error.failure.kind, error.failure.message)
            except Exception as error:  # noqa: BLE001 - a tokenizer or template may raise anything
                traceback.print_exc()
                self._fail(message.id, "rejected", describe_error(error))

    def _next_jobs(self) -> list[Job]:
        """Take the oldest job and those that can be computed with it: of the same group, similar lengths first.

        Similar lengths need little padding.
        """
        self._waiting = [job for job in self._waiting if not self._inbox.is_cancelled(job.id)]
        if not self._waiting:
            return []
        oldest = self._waiting[0]
        jobs, rows = [oldest], oldest.rows
        others = [job for job in self._waiting[1:] if job.group == oldest.group]
        for job in sorted(others, key=lambda job: abs(job.length - oldest.length)):
            # The choices of a question often share their rows: their inputs differ only in the last token.
            if len(rows | job.rows) <= self._limit:
                jobs.append(job)
                rows |= job.rows
        self._waiting = [job for job in self._waiting if job not in jobs]
        return jobs

    def _compute(self, jobs: list[Job]) -> None:
        try:
            results = self._engine.compute(jobs, self._limit, self._inbox.is_cancelled)
        except Exception as error:  # noqa: BLE001 - torch and a model's own code may raise anything
            self._engine.free_memory()
            row_count = len(frozenset().union(*(job.rows for job in jobs)))
            if self._engine.is_out_of_memory(error) and self._limit > 1 and row_count > 1:
                self._limit = max(1, min(self._limit, row_count) // 2)
                self._send(ChildNote(f"memory is short: batches have at most {self._limit} requests now"))
                self._waiting = jobs + self._waiting
                return
            traceback.print_exc()
            kind = "out_of_memory" if self._engine.is_out_of_memory(error) else "rejected"
            for job in jobs:
                # One bad request must not fail the others of its batch.
                if len(jobs) > 1:
                    self._compute([job])
                else:
                    self._fail(job.id, kind, describe_error(error))
            return
        for result in results:
            if isinstance(result, TextMeasured) and not math.isfinite(result.logprob):
                # The journal is JSON too, which has no such number. The other providers refuse it as well.
                self._fail(result.id, "rejected", _NOT_FINITE.format(result.logprob))
            else:
                self._send(result)

    def _fail(self, request_id: int, kind: str, message: str) -> None:
        self._send(WorkFailed(kind, message, request_id))

    def _send(self, message: FromChild) -> None:
        write_message(self._replies, message)


def write_message(pipe: BinaryIO, message: FromChild) -> None:
    """Write one message to assay."""
    pipe.write(encode([message]) + b"\n")
    pipe.flush()


def main(load: Callable[[LoadModel], TransformersEngine] = TransformersEngine) -> None:
    """Load the model that the first line names, then compute requests until stdin is closed."""
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    # Libraries and a model's own code may print. Their text goes to stderr, which assay keeps.
    os.dup2(2, 1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    first = requests.readline()
    if not first:
        return
    messages = decode_to_child(first)
    assert isinstance(messages[0], LoadModel)
    inbox = Inbox(requests)
    # Started before the model is loaded, so that the process also ends while it loads.
    threading.Thread(target=inbox.read_forever, daemon=True).start()
    settings = messages[0]
    try:
        engine = load(settings)
    except LoadProblem as problem:
        # The kind "not_found" halts the run, since every later call would fail in the same way.
        write_message(replies, WorkFailed("not_found", str(problem)))
        return
    write_message(replies, engine.loaded)
    Worker(engine, inbox, replies, settings.batch_size).run()


if __name__ == "__main__":
    main()
