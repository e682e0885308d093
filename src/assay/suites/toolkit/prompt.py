"""Sends prepared requests and records every reply. The solver of task files."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from assay.core.protocols import Context, Solver
from assay.core.types import Request, Response


class PromptInputs(Struct, frozen=True):
    """The requests of one case. Each is sent `repeats` times. `cut` cuts replies at the stop sequences."""

    requests: list[Request]
    repeats: int = 1
    cut: bool = True


class PromptSolver(Solver):
    """Emits one `answer` record. Its data is a list of lists: for each request, the replies of its repeats."""

    async def solve(self, inputs: PromptInputs, ctx: Context) -> None:
        """Send all requests and repeats concurrently."""
        repeats = inputs.repeats
        if repeats == 1 and len(inputs.requests) == 1:
            # Fast path for the most common case: no extra task for the call.
            (request,) = inputs.requests
            response = (await ctx.model().call(request)).response
            assert response is not None
            ctx.emit("answer", [[read_reply(request, response, cuts=inputs.cut)]])
            return
        requests = [request for request in inputs.requests for _ in range(repeats)]
        responses = await ctx.map(ctx.model().ask, requests)
        replies = [
            read_reply(request, response, cuts=inputs.cut)
            for request, response in zip(requests, responses, strict=True)
        ]
        ctx.emit("answer", [replies[start : start + repeats] for start in range(0, len(replies), repeats)])


def read_reply(request: Request, response: Response, *, cuts: bool) -> Any:
    """Return the text of a reply. For a likelihood request return `[logprob, greedy]`.

    A likelihood request without a prompt scores a whole text; it returns the logprob alone.
    """
    if request.continuation is not None:
        likelihood = response.data
        if request.prompt is None:
            return likelihood["logprob"]
        return [likelihood["logprob"], likelihood["greedy"]]
    return cut(response.text, request.params.get("stop")) if cuts else response.text


def cut(text: str, stops: list[str] | None) -> str:
    """Return the text before the first stop sequence.

    Needed because some endpoints ignore stop sequences, or include them in the reply.
    """
    for stop in stops or ():
        if stop and stop in text:
            text = text[: text.index(stop)]
    return text
