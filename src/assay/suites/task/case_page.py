"""The few-shot examples of a task's prompt, for the page of a case.

The journal has a prompt as it was sent: one text, or messages. The settings of the task say how it was joined, see
`prompts.py`. A prompt is taken apart only if there is one way to do so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from assay.core.case_details import PromptPiece
from assay.core.types import Request
from assay.suites.task.prompts import join


def prompt_pieces(
    request: Request, settings: Mapping[str, Any], system: str | None, columns: Sequence[str]
) -> list[PromptPiece]:
    """Return description, examples and question of a prompt; empty if it cannot be told where they begin.

    `settings` are those of the task as run.json has them, `system` is the option `system_instruction`. The texts of
    all pieces together are the prompt.
    """
    shots, fewshot = settings.get("num_fewshot"), settings.get("fewshot")
    if not isinstance(shots, int) or shots < 1 or not isinstance(fewshot, Mapping):
        return []
    delimiter = fewshot.get("fewshot_delimiter")
    # Without a target no delimiter follows an example.
    if not isinstance(delimiter, str) or not delimiter or fewshot.get("doc_to_target") is None:
        return []
    head = _head(settings, system, columns)
    if request.prompt is not None:
        return _pieces_of_text(request.prompt, head, shots, delimiter)
    messages = request.messages or []
    if not all(isinstance(each.get("content"), str) for each in messages):
        return []
    before = [
        PromptPiece(role="system", heading="system", text=each["content"])
        for each in messages[:1]
        if each.get("role") == "system"
    ]
    turns = messages[len(before) :]
    roles = [each.get("role") for each in turns]
    after = [
        PromptPiece(role="assistant", heading="assistant", text=turns.pop()["content"])
        for _ in roles[-1:]
        if roles[-1] == "assistant"
    ]
    if [each["role"] for each in turns] == ["user", "assistant"] * shots + ["user"]:
        examples = [
            PromptPiece(
                role=each["role"], heading=each["role"], text=each["content"], example=number // 2 + 1
            )
            for number, each in enumerate(turns[:-1])
        ]
        question = PromptPiece(role="user", heading="question", text=turns[-1]["content"])
        return [*before, *examples, question, *after]
    if [each["role"] for each in turns] == ["user"]:
        pieces = _pieces_of_text(turns[0]["content"], "" if before else head, shots, delimiter)
        return [*before, *pieces, *after] if pieces else []
    return []


def _head(settings: Mapping[str, Any], system: str | None, columns: Sequence[str]) -> str | None:
    """Return the text before the first example; None if the task computes it for each document."""
    description = settings.get("description") or ""
    is_fixed = isinstance(description, str) and not re.search(r"\{[{%#]", description)
    if not is_fixed or description in columns:
        return None
    delimiter = settings.get("fewshot_delimiter")
    return join(system, description, delimiter) if isinstance(delimiter, str) else None


def _pieces_of_text(text: str, head: str | None, shots: int, delimiter: str) -> list[PromptPiece]:
    if head is None or not text.startswith(head):
        return []
    # Matches may overlap here, as in three line breaks: then there are two places at which an example may end.
    places = [match.start() for match in re.finditer(f"(?={re.escape(delimiter)})", text[len(head) :])]
    if len(places) != shots:
        return []  # the delimiter is also within an example or the question
    pieces = [PromptPiece(role="system", heading="description", text=head)] if head else []
    begin = len(head)
    for number, place in enumerate(places, 1):
        end = len(head) + place + len(delimiter)
        pieces.append(PromptPiece(role="user", heading="", text=text[begin:end], example=number))
        begin = end
    return [*pieces, PromptPiece(role="user", heading="question", text=text[begin:])]
