"""The few-shot examples of a task's prompt, and the texts of its choices, for the page of a case.

The journal has a prompt as it was sent: one text, or messages. The settings of the task say how it was joined, see
`prompts.py`. A prompt is taken apart only if there is one way to do so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from assay.core.case_details import AnswerPair, PromptPiece
from assay.core.suite_pages import StoredCase, as_text
from assay.core.types import ASK, Request, Score
from assay.suites.task.metrics import ChoiceLikelihoods
from assay.suites.task.prompts import join
from assay.suites.task.requests import TaskGold


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
            PromptPiece(role=each["role"], heading=each["role"], text=each["content"], example=number // 2 + 1)
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


def answer_pair(score: Score, case: StoredCase) -> AnswerPair | None:
    """Return the target beside the answer of a filter: `score` is the first of the filter, which stores them.

    Of a multiple choice they are the texts of the choices, if the calls tell which text has which likelihood. None if
    the score has neither.
    """
    filtered = score.data.get("filtered") if isinstance(score.data, dict) else None
    expected = score.expected
    if filtered is None:
        has_target = case.end.failure is not None and expected is not None
        return AnswerPair(name=score.part, expected=as_text(expected), found=None) if has_target else None
    # A task without repeats has one answer in its list.
    found = filtered[0] if isinstance(filtered, list) and len(filtered) == 1 else filtered
    if texts := choice_texts(filtered, case):
        expected = _choices_of_label(expected, texts)
        found = _chosen(filtered, texts, [each.metric for each in case.scores if each.part == score.part])
    return AnswerPair(name=score.part, expected=None if expected is None else as_text(expected), found=as_text(found))


def choice_texts(answers: object, case: StoredCase) -> list[str]:
    """Return the texts of the choices in their order; empty if the answers are no likelihoods, or it cannot be told.

    Calls are in the order in which they ended, so a choice is found by its likelihood.
    """
    if not isinstance(answers, list) or len(answers) < 2 or not all(map(is_likelihood, answers)):
        return []
    requests = {call.hash: call.request for call in case.calls if call.stage == ASK and call.request}
    prompts = {request.prompt for request in requests.values()}
    # acc_mutual_info asks for each choice without the question too, after those with it.
    count = len(answers) // 2 if "" in prompts else len(answers)
    prompts.discard("")
    if len(prompts) != 1:
        return []  # the choices are in the questions
    by_likelihood: dict[tuple[Any, Any], set[str]] = {}
    for call in case.calls:
        request = requests.get(call.hash)
        data = call.response.data if call.response else None
        if request and request.prompt in prompts and request.continuation and isinstance(data, dict):
            logprob, greedy = data.get("logprob"), data.get("greedy")
            if is_likelihood([logprob, greedy]):
                by_likelihood.setdefault((logprob, greedy), set()).add(request.continuation.strip())
    texts = [by_likelihood.get((logprob, greedy), set()) for logprob, greedy in answers[:count]]
    return [text for (text,) in texts] if all(len(text) == 1 for text in texts) else []


def is_likelihood(answer: object) -> bool:
    """Return whether an answer is [logprob, greedy]."""
    match answer:
        case [int() | float(), bool()]:
            return True
    return False


def _choices_of_label(label: Any, texts: list[str]) -> Any:
    """Return the text of the choice with this number, or of several; another label, such as a text, as it is."""
    if isinstance(label, list):
        return " or ".join(as_text(_choices_of_label(each, texts)) for each in label)
    is_number = isinstance(label, int) and not isinstance(label, bool) and 0 <= label < len(texts)
    return texts[label] if is_number else label


def _chosen(answers: list[Any], texts: list[str], metrics: Sequence[str]) -> str:
    """Return the likeliest choice. If the metrics do not agree on it, the choice of each."""
    likelihoods = ChoiceLikelihoods(TaskGold({}, None, choices=texts), answers)
    by_metric = {
        "acc": likelihoods.logprobs,
        "acc_norm": likelihoods.per_length([len(text) for text in texts]),
        "acc_bytes": likelihoods.per_length([len(text.encode()) for text in texts]),
    }
    chosen = {
        metric: texts[max(range(len(texts)), key=values.__getitem__)]
        for metric, values in by_metric.items()
        if metric in metrics
    }
    if len(set(chosen.values())) > 1:
        return " · ".join(f"{metric}: {text}" for metric, text in chosen.items())
    return next(iter(chosen.values()), texts[likelihoods.best])
