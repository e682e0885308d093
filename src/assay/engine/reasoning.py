"""Separates a model's reasoning from its answer, where the endpoint sends both in one text.

    split_reasoning(Response("<think>2 and 2</think>\n\n4"))    # text "4", reasoning "2 and 2"

Many servers of open models do not know which part of a text is reasoning. The reasoning is saved with the reply, and
no solver, scorer or judge sees it.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from assay.core.types import Response

_BLOCK = re.compile(r"\s*<think>(.*?)(?:</think>\s*|\Z)", re.DOTALL)
# Some chat templates open the block in the prompt, so the reply has only its end. An answer may mention the tag, but
# hardly at the end of a line.
_END_ALONE = re.compile(r"(.*?)</think>[ \t]*(?:\r?\n\s*|\Z)", re.DOTALL)


def split_reasoning(response: Response) -> Response:
    """Return the response with its reasoning apart from its text. A block that was cut off is all reasoning."""
    text = response.text
    # `data` is the reply to another SDK, which gets it as it is.
    if "think>" not in text or response.data is not None:
        return response
    found: list[str] = []
    while block := _BLOCK.match(text):
        found.append(block[1])
        text = text[block.end() :]
    if not found and "<think>" not in text.partition("</think>")[0]:
        block = _END_ALONE.match(text)
        if block is not None:
            found.append(block[1])
            text = text[block.end() :]
    if not found:
        return response
    reasoning = "\n".join(part for part in (response.reasoning, *(part.strip() for part in found)) if part)
    return replace(response, text=text, reasoning=reasoning)
