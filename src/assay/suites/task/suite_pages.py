"""A document of a task for people."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from assay.core.case_details import (
    UNREADABLE_VOTES,
    AnswerPair,
    AnswerVotes,
    CaseDetails,
    PromptPiece,
    count_votes,
    verdict_details,
)
from assay.core.suite_pages import RunOrigin, Section, StoredCase, SuitePages, as_text
from assay.core.types import Record, Request, Score
from assay.suites.task.page_details import answer_pair, is_likelihood, prompt_pieces


class TaskPages(SuitePages):
    """A document of a task for people."""

    def sections(self, case: StoredCase) -> Sequence[Section]:
        """Return each score of a case, with the filtered answers and the votes, for `assay show`."""
        sections = []
        for score in case.scores:
            data = score.data if isinstance(score.data, dict) else {}
            name = " by ".join(filter(None, (score.metric, score.part)))
            value = f"{score.value:g}" if score.value is not None else json.dumps(data.get("value"))
            status = "" if score.status == "scored" else f" ({score.status})"
            lines = [score.reason] if score.reason else []
            if "traceback" in data:
                lines.append(as_text(data["traceback"]))
            if pair := answer_pair(score, case):
                lines.append(_expected_and_found(score, pair))
            votes = count_votes(data.get("votes"))
            if votes is None:
                lines.append(UNREADABLE_VOTES)
            elif votes:
                lines.append("votes: " + ", ".join(f"{vote!r} × {count}" for vote, count in votes))
            # Only a judge's score has a label, such as Correct or Omission.
            label = f", {data['label']}" if "label" in data else ""
            sections.append(Section(heading=f"{name}: {value}{label}{status}", text="\n".join(lines)))
        return sections

    def answer_text(self, records: Sequence[Record]) -> str:
        """Return the first reply. Of a multiple choice, whose texts are no part of the records, all likelihoods."""
        choices = records[-1].data if records else None
        if isinstance(choices, list) and len(choices) > 1:
            firsts = [repeats[0] for repeats in choices if isinstance(repeats, list) and repeats]
            if len(firsts) == len(choices) and all(map(is_likelihood, firsts)):
                return "log-likelihoods " + ", ".join(f"{logprob:.6g}" for logprob, _ in firsts)
        return super().answer_text(records)

    def details(self, case: StoredCase) -> CaseDetails:
        """Return each filter's answer beside the target, and how often each answer came among the repeats."""
        from assay.core.case_details import CaseDetails

        details = CaseDetails(verdicts=verdict_details(case.scores))
        seen = set()
        for score in case.scores:
            data = score.data if isinstance(score.data, dict) else {}
            pair = answer_pair(score, case)
            if score.part in seen or (pair is None and "votes" not in data):
                continue  # of several metrics, only the first one stores the answers of its filter
            seen.add(score.part)
            if pair is not None and pair.expected is not None:
                details.pairs.append(pair)
            # Votes in a form that no filter writes are shown with their sentence by `sections`.
            if votes := count_votes(data.get("votes")):
                details.votes.append(AnswerVotes(score.part, votes))
        return details

    def prompt_pieces(self, request: Request, case: StoredCase, origin: RunOrigin) -> Sequence[PromptPiece]:
        """Return description, few-shot examples and question of a prompt."""
        settings, facts = origin.plan.get(case.end.set), origin.facts.get(case.end.set)
        if not isinstance(settings, Mapping) or not isinstance(facts, Mapping):
            return ()

        system = origin.options.get("system_instruction")
        return prompt_pieces(request, settings, system, facts.get("columns") or [])


def _expected_and_found(score: Score, pair: AnswerPair) -> str:
    """Return `expected 4658 · found 4657 ✗`. Several repeats are a list. What the run does not have is left out."""
    if pair.found is None:
        return f"expected {pair.expected}"
    if pair.expected is None:
        return f"found {pair.found}"
    mark = {1.0: " ✓", 0.0: " ✗"}.get(score.value, "") if score.value is not None else ""
    return f"expected {pair.expected} · found {pair.found}{mark}"
