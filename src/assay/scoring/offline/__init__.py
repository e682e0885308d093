"""`offline`: a deterministic judge that compares words, numbers and dates. It calls no model.

`answer.py` judges answers to questions, `memories.py` judges everything about memories. Both parse texts with
`words.py`, `numbers.py` and `dates.py`. For answers, `references.py` reads references that are not one answer,
`measures.py` finds times of day, rates and units, and `guesses.py` finds several candidates. `index.py` finds the texts
that share words with a memory point.

Weights and thresholds were chosen on half of the LoCoMo conversations. `make judges` measures the judge on both
halves; docs/judges.md has the figures. Any change of the code or of a word list changes FINGERPRINT: then run
`make calibrate-offline` to renew the shipped calibration. Comments and docstrings do not count.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from assay.scoring import questions, text_overlap
from assay.scoring.offline.answer import judge_answer
from assay.scoring.offline.memories import judge_correctness, judge_coverage, judge_interference, judge_update
from assay.scoring.offline.words import abstains, plain_text
from assay.usercode.source import syntax_of


def verdict(question: questions.JudgeQuestion) -> questions.Verdict:
    """Return a label for each item of the question, with its measure (`sure`) and a reason in words."""
    if isinstance(question, questions.AnswerQuestion):
        return judge_answer(question)
    if isinstance(question, questions.EvidenceQuestion):
        return judge_coverage(question.evidence, question.texts)
    if isinstance(question, questions.RecallQuestion):
        return judge_coverage(question.points, question.texts)
    if isinstance(question, questions.CorrectnessQuestion):
        return judge_correctness(question)
    if isinstance(question, questions.UpdateQuestion):
        return judge_update(question)
    assert isinstance(question, questions.InterferenceQuestion)
    return judge_interference(question)


def says_unknown(answer: str) -> bool:
    """Return whether an answer says that something is not known, as `There is no mention of a hamster` does."""
    return abstains(plain_text(answer))


def _fingerprint() -> str:
    # text_overlap.py is part of the judge, because its `tokens` defines the words that are compared.
    folder = Path(__file__).parent
    code = [*sorted(folder.glob("*.py")), Path(text_overlap.__file__)]
    parts = [syntax_of(file.read_text(encoding="utf-8")) for file in code]
    parts += [file.read_text(encoding="utf-8") for file in sorted(folder.glob("*.txt"))]
    return f"offline.v1@{hashlib.sha256(repr(parts).encode()).hexdigest()[:16]}"


# `offline.v1@` and a hash of the judge's code and word lists. A changed judge needs a new calibration.
FINGERPRINT = _fingerprint()
