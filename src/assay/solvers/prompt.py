"""Sends prepared requests, each as often as asked, and keeps every reply."""

from __future__ import annotations

from msgspec import Struct

from assay.core.protocols import Context
from assay.core.types import Request


class PromptInputs(Struct, frozen=True):
    """What one case asks: its requests, and how often each is repeated."""

    requests: list[Request]
    repeats: int = 1


class PromptSolver:
    """Emits one `answer` whose data is the replies, by request and repeat."""

    async def solve(self, inputs: PromptInputs, ctx: Context) -> None:
        """All requests and repeats run side by side."""
        repeats = inputs.repeats
        if repeats == 1 and len(inputs.requests) == 1:
            (request,) = inputs.requests
            response = await ctx.model().ask(request)
            ctx.emit("answer", [[cut(response.text, request.params.get("stop"))]])
            return
        asked = [request for request in inputs.requests for _ in range(repeats)]
        responses = await ctx.map(ctx.model().ask, asked)
        texts = [
            cut(response.text, request.params.get("stop"))
            for request, response in zip(asked, responses, strict=True)
        ]
        ctx.emit("answer", [texts[at : at + repeats] for at in range(0, len(texts), repeats)])


def cut(text: str, stops: list[str] | None) -> str:
    """The text before the first stop: endpoints may ignore some stops, or send them along."""
    for stop in stops or ():
        if stop and stop in text:
            text = text[: text.index(stop)]
    return text
