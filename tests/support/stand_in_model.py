"""A program like the child of `hf/PATH`, with another model: it needs no torch, and does what a prompt tells it.

Pipes, batches, cancellations and the end of the process are those of the real child; only the engine differs. A prompt
is answered by the size of its batch and its own text, unless it is one of these:

    exit              write a line to stderr and end with exit code 7
    kill              kill the process
    block FILE        create FILE and never answer
    reject            fail before it is computed
    fault             fail while it is computed, and all others of the batch with it
    crowd             run out of memory in company
    until N [FILE]    create FILE and wait until request N is cancelled
    garble            write a reply that assay cannot read

A continuation "-inf" or "nan" has this number as its log-probability. If the model's folder has a file `fatal`, each
start adds a byte to it and kills the process.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from assay.core.errors import ModelError
from assay.core.types import Failure
from assay.models.likelihood.spans import TokenSpan
from assay.models.transformers.engine import TransformersEngine
from assay.models.transformers.jobs import GenerateJob, GenerationPlan, Job, LoadProblem, MeasureJob
from assay.models.transformers.protocol import (
    GenerateText,
    LoadModel,
    MeasureText,
    ModelLoaded,
    TextGenerated,
    TextMeasured,
)
from assay.models.transformers.worker import main

CONTEXT = 100


class StandInEngine(TransformersEngine):
    """A model whose tokens are characters. A continuation's log-probability is minus its length."""

    def __init__(self, settings: LoadModel) -> None:
        if Path(settings.folder, "broken").exists():
            raise LoadProblem("the file broken is in the way")
        fatal = Path(settings.folder, "fatal")
        if fatal.exists():
            with fatal.open("a") as file:
                file.write(".")
            os.kill(os.getpid(), signal.SIGKILL)
        self.loaded = ModelLoaded("cpu", "float32", CONTEXT)

    def prepare(self, message: GenerateText | MeasureText) -> Job:
        if isinstance(message, MeasureText):
            span = TokenSpan([0], [ord(letter) for letter in message.continuation])
            return MeasureJob(message, [span])
        prompt = message.prompt or str(message.messages)
        if prompt == "reject":
            raise ModelError(Failure("rejected", "this prompt is rejected"))
        return GenerateJob(
            message, [ord(letter) for letter in prompt], GenerationPlan(message.params, CONTEXT), cut=False
        )

    def compute(
        self, jobs: Sequence[Job], limit: int, is_cancelled: Callable[[int], bool]
    ) -> list[TextGenerated | TextMeasured]:
        results: list[TextGenerated | TextMeasured] = []
        for job in jobs:
            if isinstance(job, MeasureJob):
                count = len(job.spans[0].scored)
                text = "".join(map(chr, job.spans[0].scored))
                logprob = float(text if text in ("-inf", "nan") else -count)
                results.append(TextMeasured(job.id, logprob, greedy=True, input=1, output=count))
                continue
            prompt = "".join(map(chr, job.ids))
            if prompt == "crowd" and len(jobs) > 1:
                raise MemoryError("too many")
            if prompt == "fault":
                raise ValueError("a fault")
            text = self._answer(prompt, len(jobs), is_cancelled)
            # A struct does not check its values, so that this one is written with a number as its text.
            reply: Any = 7 if prompt == "garble" else text
            results.append(TextGenerated(job.id, reply, "stop", job.length, 1))
        return results

    def _answer(self, prompt: str, batch: int, is_cancelled: Callable[[int], bool]) -> str:
        word, _, rest = prompt.partition(" ")
        if word == "exit":
            sys.stderr.write("a last word on stderr\n")
            sys.stderr.flush()
            os._exit(7)
        if word == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if word == "block":
            Path(rest).touch()
            threading.Event().wait()
        if word == "until":
            number, _, file = rest.partition(" ")
            if file:
                Path(file).touch()
            while not is_cancelled(int(number)):
                time.sleep(0.001)
        return f"{batch} {prompt}"

    def is_out_of_memory(self, error: BaseException) -> bool:
        return isinstance(error, MemoryError)

    def free_memory(self) -> None:
        pass


if __name__ == "__main__":
    main(StandInEngine)
