"""The sizes of the data for --dry-run: what a run would ask, and an estimate of the tokens. One pass over the data."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

from msgspec import Struct

from assay.suites.memory.test.pipeline_caller import PipelineCaller
from assay.suites.memory.test.retention import RetentionCheck
from assay.suites.memory.test.scorers import JudgeRules, is_judged

# Rule of thumb for English text.
_CHARACTERS_PER_TOKEN = 4


class PlannedTest(Struct, frozen=True):
    """A test: the messages before it, the questions it asks, and the characters of these questions."""

    after: int
    questions: int
    characters: int


class DataPlan:
    """Counts of all conversations, for one memory. `rules` are those of the judge."""

    def __init__(self, callers: Iterable[PipelineCaller], rules: JudgeRules | None = None) -> None:
        self._rules = rules
        self.schedule = RetentionCheck()
        self.messages = self.tests = self.answers = 0
        self.verdicts = 0
        """Answers that a judge can compare with a reference."""
        self.output_tokens = 0
        """An estimate for all answers: an answer counts as long as its reference."""
        self.repeats = False
        """Whether some conversation has several tests."""
        # The average length of a message, and the tests of each conversation.
        self._sizes: list[tuple[float, list[PlannedTest]]] = []
        for caller in callers:
            self._add(caller)

    def _add(self, caller: PipelineCaller) -> None:
        self.schedule.add(caller)
        lengths = [len(message.line) + len(message.date) for message in caller.conversation.messages]
        self.messages += len(lengths)
        self.tests += len(caller.tests)
        self.repeats = self.repeats or len(caller.tests) > 1
        sizes: list[PlannedTest] = []
        for test in caller.tests:
            questions = caller.questions[: test.visible]
            self.answers += test.visible
            for question in questions:
                self.verdicts += is_judged(question, self._rules)
                self.output_tokens += max(1, len(str(question.reference or "")) // _CHARACTERS_PER_TOKEN)
            sizes.append(PlannedTest(test.after, test.visible, sum(len(question.text) for question in questions)))
        self._sizes.append((fmean(lengths) if lengths else 0.0, sizes))

    def input_tokens(self, prompt: int, top_k: int, *, bundle: bool, empty: bool) -> int:
        """Estimate the input tokens of all answers: `prompt` characters, question and retrieved items.

        An item counts as an average message. A `bundle` memory returns all messages so far, an `empty` one none.
        """
        characters = 0.0
        for mean, tests in self._sizes:
            for test in tests:
                items = 0 if empty else test.after if bundle else min(top_k, test.after)
                characters += test.characters + test.questions * (prompt + items * mean)
        return round(characters / _CHARACTERS_PER_TOKEN)
