"""Sends prepared requests, each as often as asked, and keeps every reply."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from assay.core.protocols import Context, Solver
from assay.core.types import Request, Response


class PromptInputs(Struct, frozen=True):
    """What one case asks: its requests, how often each is repeated, and whether replies are cut at stops."""

    requests: list[Request]
    repeats: int = 1
    cut: bool = True


class PromptSolver(Solver):
    """Emits one `answer` whose data is the replies, by request and repeat."""

    async def solve(self, inputs: PromptInputs, ctx: Context) -> None:
        """Send all requests and repeats side by side."""
        repeats = inputs.repeats
        if repeats == 1 and len(inputs.requests) == 1:
            # The usual case. It needs no task of its own for the call.
            (request,) = inputs.requests
            response = await ctx.model().ask(request)
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
    """Return the text; of a likelihood [logprob, greedy], or of a whole text its logprob."""
    if request.continuation is not None:
        likelihood = response.data
        if request.prompt is None:
            return likelihood["logprob"]
        return [likelihood["logprob"], likelihood["greedy"]]
    return cut(response.text, request.params.get("stop")) if cuts else response.text


def cut(text: str, stops: list[str] | None) -> str:
    """Return the text before the first stop. Endpoints may ignore some stops, or send them along."""
    for stop in stops or ():
        if stop and stop in text:
            text = text[: text.index(stop)]
    return text
