"""Invented answers of several kinds, English and Chinese: what the offline judge accepts of each kind."""

from __future__ import annotations

import pytest

from assay.scoring import offline
from assay.scoring.questions import CORRECT, AnswerQuestion

from calibration.pairs import RIGHT, Pair, invented_pairs

# Wrong answers that the judge accepts, by language and kind. No other kind may have any.
KNOWN_MISTAKES = {("en", "vague"): 2, ("en", "specific"): 2, ("en", "guesses"): 1, ("en", "negation"): 1}
KNOWN_MISTAKES |= {("en", "missing item"): 1}
KINDS = sorted({(pair.language, pair.kind) for pair in invented_pairs()})


def is_accepted(pair: Pair) -> bool:
    question = AnswerQuestion(pair.question, pair.reference, pair.response)
    return offline.verdict(question).labels == (CORRECT,)


@pytest.mark.parametrize(("language", "kind"), KINDS, ids=[" ".join(each) for each in KINDS])
def test_right_answers_are_accepted_and_wrong_ones_refused(language: str, kind: str) -> None:
    pairs = [pair for pair in invented_pairs() if (pair.language, pair.kind) == (language, kind)]
    mistakes = [pair.response for pair in pairs if is_accepted(pair) != (kind in RIGHT)]
    allowed = 1 if kind == "paraphrase" else KNOWN_MISTAKES.get((language, kind), 0)
    assert len(pairs) > 0
    assert len(mistakes) <= allowed, mistakes


def test_every_kind_has_both_languages() -> None:
    assert {kind for language, kind in KINDS if language == "en"} == {
        kind for language, kind in KINDS if language == "zh"
    }
