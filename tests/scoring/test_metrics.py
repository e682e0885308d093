from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import MissingExtra, UsageError
from assay.scoring.metrics import build_word_f1, find_metric


def exact(target: Any, answer: Any, **options: Any) -> Any:
    return find_metric("exact_match").build(**options)(target, answer)


def test_exact_match_cleans_both_sides_in_one_order() -> None:
    """Regexes go first, then case, ASCII punctuation and digits."""
    assert exact("Paris", "Paris") == 1.0
    assert exact("Paris", "paris") == 0.0
    assert exact("Paris", "PARIS.", ignore_case=True, ignore_punctuation=True) == 1.0
    assert exact("Paris", "Paris 2020 ", ignore_numbers=True) == 0.0
    assert exact("3,663", "3663", regexes_to_ignore=[","]) == 1.0
    assert exact("the cat", "THE cat", regexes_to_ignore=["^the "], ignore_case=True) == 0.0


def test_lowercasing_loses_no_letters() -> None:
    """A letter whose lower case is longer keeps what follows it, unlike in the harness."""
    assert exact("İx", "İy", ignore_case=True) == 0.0


def test_quirks_compare_as_arrays_do() -> None:
    """Only on request: NULs at the end do not count, and a text keeps its length in lower case."""
    assert exact("a", "a\0") == 0.0
    assert exact("a", "a\0", quirks=True) == 1.0
    assert exact("İx", "İy", ignore_case=True, quirks=True) == 1.0
    assert exact("a", "\0a", quirks=True) == 0.0


def test_what_is_no_text_is_compared_as_it_is() -> None:
    """A number equals a number, never its spelling; options that clean text leave it alone."""
    assert exact(1, 1.0) == 1.0
    assert exact(1, "1") == 0.0
    assert exact(None, None, ignore_case=True) == 1.0


def test_a_wrong_regex_is_named() -> None:
    """A pattern that does not compile is known before the first request."""
    with pytest.raises(UsageError, match=r"'\(' is not a regular expression"):
        exact("a", "a", regexes_to_ignore=["("])


@pytest.mark.parametrize(
    ("target", "answer", "rate"),
    [
        ("the cat sat", "the cat sat", 0.0),
        ("the cat sat", "the dog sat down", 2 / 3),
        ("the  cat\n\nsat ", "the cat sat", 0.0),
        ("one", "two three four", 3.0),
        ("a\nb", "a b", 2.0),
        ("a b", "", 1.0),
    ],
)
def test_word_error_rate_is_that_of_jiwer(target: str, answer: str, rate: float) -> None:
    assert find_metric("wer").build()(target, answer) == pytest.approx(rate)


def test_a_target_without_words_has_no_word_error_rate() -> None:
    with pytest.raises(ValueError, match="the target has no words"):
        find_metric("wer").build()(" ", "a")


def test_metrics_of_hugging_face_evaluate_compare_the_label_of_each_document() -> None:
    """polemo2 has `accuracy`, and `f1` with `average` and the aggregation `mean`."""
    build = find_metric("f1").builders["mean"]
    for measure in (
        find_metric("accuracy").build(),
        *(build(average=name) for name in ("micro", "macro", "weighted")),
    ):
        assert [measure(2, 2), measure(2, -1)] == [1.0, 0.0]
    with pytest.raises(UsageError, match="average is micro, macro or weighted, not 'binary'"):
        build(average="binary")


@pytest.mark.parametrize("name", ["bleu", "chrf", "chrf++", "ter"])
def test_a_missing_extra_is_known_before_the_first_request(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Building the metric says what to install; with it, a doc's value is the pair."""
    pytest.importorskip("sacrebleu")
    assert find_metric(name).build()("gold", "given") == ["gold", "given"]
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(MissingExtra, match=re.escape("pip install 'assay[bleu]'")):
        find_metric(name).build()


def test_words_shared_by_target_and_answer() -> None:
    """Word F1 counts each word as often as it occurs, and Chinese by character."""
    word_f1 = build_word_f1()
    assert word_f1("the cat sat", "the cat") == 0.8
    assert word_f1("a a b", "a b b") == 2 * 2 / 6
    assert word_f1("我喜欢猫", "我喜欢狗") == 0.75
    assert word_f1("", "") == 1.0
    assert word_f1("x", "") == 0.0


def test_accuracy_forgives_white_space_only() -> None:
    """A label is right or wrong as a whole."""
    measure = find_metric("acc").build()
    assert (measure("B", " B\n"), measure("B", "b"), measure(1, "1")) == (1.0, 0.0, 1.0)


def test_a_class_of_a_user_is_a_metric_with_the_defaults_of_what_it_does_not_declare(tmp_path: Path) -> None:
    """Only aggregations and `build` are needed; `build_median` replaces `build` for the aggregation `median`."""
    (tmp_path / "own.py").write_text(
        "class Least:\n    AGGREGATIONS = ('mean', 'median')\n    build = build_median = lambda: lambda t, a: 1\n"
        "class Full(Least):\n    HIGHER_IS_BETTER, RIGHT_WRONG, OUTPUT_TYPES = False, True, ('multiple_choice',)\n"
        "    build_median = lambda: lambda t, a: 2\n"
    )
    least, full = (find_metric(f"{tmp_path}/own.py:{name}") for name in ("Least", "Full"))
    assert (least.higher_is_better, least.right_wrong, least.output_types) == (None, False, ("generate_until",))
    assert (full.higher_is_better, full.right_wrong, full.output_types) == (False, True, ("multiple_choice",))
    assert [full.builders[name]()("t", "a") for name in full.aggregations] == [1, 2]
    with pytest.raises(UsageError, match="is not a metric: a metric has AGGREGATIONS and build"):
        find_metric(f"{tmp_path}/own.py:__name__")
