"""A prompt of one's own for the judge of answers: `--judge-prompt FILE`.

    setup = JudgeSetup(prompt=Path("yes-or-no.txt"))
    judge = Judge("openai/judge", setup=setup)

The file has the form of the prompts in `judges/`, or only a text, which is then the user message. It needs the
placeholders {question}, {reference} and {response}; {evidence} is filled too. The judge may reply with a JSON object
that has a `label`, or with the label in plain text. `WORDS` has the words for labels.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from msgspec import Struct, field

from assay.core.errors import UsageError
from assay.core.hashing import fingerprint
from assay.language import prompts
from assay.scoring.json_text import read_reply
from assay.scoring.judge_prompt import read_label
from assay.scoring.judges.answer import AnswerPrompt
from assay.scoring.questions import CORRECT, HALLUCINATION, OMISSION, AnswerQuestion

PLACEHOLDERS = ("question", "reference", "response")
"""Placeholders that every prompt for answers must have."""

OPTIONAL = ("evidence", "rule", "mark", "shown", "total")
"""Further placeholders. `rule` is that of a protocol for the type of the question, or empty. `mark` is a text that
occurs in no judged text. The last two are those of the part `chosen`."""

WORDS: Mapping[str, str] = {
    "correct": CORRECT,
    "hallucination": HALLUCINATION,
    "omission": OMISSION,
    # Protocols with two labels. Their "wrong" does not tell a made-up answer from an omission.
    "wrong": HALLUCINATION,
    "incorrect": HALLUCINATION,
    "yes": CORRECT,
    "no": HALLUCINATION,
}
"""Words for labels that a reply may use, in lower case."""

# Keys under which published protocols let the judge explain its label.
_REASONS = ("reason", "reasoning", "explanation")


class JudgeSetup(Struct, frozen=True, kw_only=True):
    """How a model judges answers: the prompt file, the words of its labels, and the number of votes.

    `--votes` above 1 takes precedence over `votes`.
    """

    prompt: Path
    labels: Mapping[str, str] = field(default_factory=lambda: dict(WORDS))
    votes: int = 1


def setup_of(judge_prompt: str, judge: str | None, offline: str) -> JudgeSetup | None:
    """Return the setup that --judge-prompt asks for, or None without the flag.

    Raises UsageError if there is no judge, or one without a prompt: the judge `offline`.
    """
    if not judge_prompt:
        return None
    if not judge or judge == offline:
        why = f"the judge {offline!r} has none" if judge else "there is no judge"
        raise UsageError(f"--judge-prompt is the prompt of a model, but {why}: add --judge PROVIDER/NAME")
    return JudgeSetup(prompt=Path(judge_prompt))


class OwnAnswerPrompt(AnswerPrompt):
    """Judges answers with a user's prompt. Raises InputError if the file lacks a placeholder.

    The file is read once, so that the fingerprint and the requests are of the same text.
    """

    # The user's prompt says which form the reply has.
    wants_json: ClassVar[bool] = False

    def __init__(self, setup: JudgeSetup) -> None:
        super().__init__(setup.prompt)
        self._file_parts = prompts.read_own_parts(setup.prompt, PLACEHOLDERS, OPTIONAL, ("chosen",))
        self._labels = setup.labels
        self._patterns = _label_patterns(setup.labels)

    @property
    def fingerprint(self) -> str:
        """A hash of the prompt's text and of the words for labels. The name of the file does not count."""
        return f"own@{fingerprint([self._file_parts, dict(self._labels)])}"

    @property
    def binary(self) -> bool:
        """Whether the prompt names no label for omissions, so that every wrong answer gets one label."""
        names = [word for word, label in self._labels.items() if label == OMISSION]
        text = "\n".join(self._file_parts.values()).casefold()
        return not any(name in text for name in names)

    def parts_of_file(self) -> Mapping[str, str]:
        """Return the parts as they were when the judge was made."""
        return self._file_parts

    def read_text(self, text: str, prompt: str, question: AnswerQuestion) -> tuple[tuple[str, ...], str]:
        """Return the label and the reason of a JSON object or of a plain text.

        The prompt may show an object such as {"label": "CORRECT"} as an example, so a reply may repeat it. An object
        that stands in the judged texts is a quotation, and no verdict.
        """
        judged = "\n".join((question.question, question.reference, question.response, *question.evidence))
        try:
            reply = read_reply(text, judged)
        except ValueError as error:
            label = self._plain_label(text)
            if label is None:
                problem = str(error) if "{" in text else _NO_LABEL.format(words=", ".join(self._labels))
                raise ValueError(problem) from None
            return (label,), text.strip()
        label = read_label(reply.get("label"), question.labels, self._labels, "`label`")
        reasons = (reply.get(name) for name in _REASONS)
        return (label,), next((reason for reason in reasons if isinstance(reason, str)), "")

    def _plain_label(self, text: str) -> str | None:
        """Return the label that begins or ends a text. None without one, or if the two differ.

        `The answer is not correct` ends with a word for a label, but the word is not a sentence of its own.
        """
        first, last = self._patterns
        matches = (first.match(text.strip()), last.search(text.strip()))
        labels = {self._labels[match[1].casefold()] for match in matches if match}
        return labels.pop() if len(labels) == 1 else None


_NO_LABEL = "the reply has neither a JSON object nor a label as its first or last sentence ({words})"


def _label_patterns(labels: Mapping[str, str]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return patterns for a label before the first comma or at the end of the first sentence, and as the last one."""
    words = "|".join(re.escape(word) for word in sorted(labels, key=len, reverse=True))
    marks = r"[\s*_`\"'()\[\]]*"
    first = re.compile(rf"{marks}({words}){marks}(?:$|[\n.,:;!–—-])", re.IGNORECASE)
    last = re.compile(rf"(?:^|[\n.:;!?>。：]){marks}({words})[\s*_`\"'()\[\].!。]*$", re.IGNORECASE)
    return first, last
