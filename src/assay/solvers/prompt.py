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
        """All requests and repeats run side by side."""
        repeats = inputs.repeats
        if repeats == 1 and len(inputs.requests) == 1:
            (request,) = inputs.requests
            ctx.emit("answer", [[reply(request, await ctx.model().ask(request), cuts=inputs.cut)]])
            return
        asked = [request for request in inputs.requests for _ in range(repeats)]
        responses = await ctx.map(ctx.model().ask, asked)
        replies = [
            reply(request, response, cuts=inputs.cut)
            for request, response in zip(asked, responses, strict=True)
        ]
        ctx.emit("answer", [replies[at : at + repeats] for at in range(0, len(replies), repeats)])


def reply(request: Request, response: Response, *, cuts: bool) -> Any:
    """The text; of a likelihood [logprob, greedy], or of a whole text its logprob."""
    if request.continuation is not None:
        found = response.data
        return found["logprob"] if request.prompt is None else [found["logprob"], found["greedy"]]
    return cut(response.text, request.params.get("stop")) if cuts else response.text


def cut(text: str, stops: list[str] | None) -> str:
    """The text before the first stop: endpoints may ignore some stops, or send them along."""
    for stop in stops or ():
        if stop and stop in text:
            text = text[: text.index(stop)]
    return text
