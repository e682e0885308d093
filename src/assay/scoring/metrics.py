"""The built-in metrics, in the table `BUILT_IN`. A metric compares the target of a document with the model's answer.

    find_metric("exact_match").build(ignore_case=True)("Paris", "PARIS")       # 1.0
    find_metric("my_metrics.py:StartsWith")                                    # a user's class: see docs/extending.md

The value for a document is a number. Metrics such as F1, which need all documents, return the pair [target, answer]
instead. Only tasks with `generate_until` call the measure. Other output types compute their metrics from
log-likelihoods; `build` of a metric that exists only for them raises UsageError.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from assay.core.errors import UsageError
from assay.language.patterns import compile_pattern
from assay.scoring.translation import check_installed
from assay.usercode import plugins

Measure = Callable[[Any, Any], Any]
MeasureBuilder = Callable[..., Measure]
"""Makes a measure. Options of the metric are keyword arguments."""

_GENERATE, _CHOICE = "generate_until", "multiple_choice"
_LIKELIHOOD, _ROLLING = "loglikelihood", "loglikelihood_rolling"
_MEAN = ("mean", "median", "nanmean")

# The metrics of a task file without `metric_list`, by its output type. As in lm-evaluation-harness.
DEFAULT_METRICS = {
    _GENERATE: ("exact_match",),
    _LIKELIHOOD: ("perplexity", "acc"),
    _ROLLING: ("word_perplexity", "byte_perplexity", "bits_per_byte"),
    _CHOICE: ("acc", "acc_norm"),
}


class MetricPlugin(Struct, frozen=True):
    """A metric, and what it declares.

    `right_wrong` declares that a value is 1 for right and 0 for wrong. The number then has the interval of a
    proportion, and a document without an answer counts as 0. Other metrics leave it out, so that a refusal costs the
    subject nothing, and have the interval of a mean, which may leave 0 to 1.
    """

    name: str
    build: MeasureBuilder
    aggregations: tuple[str, ...] = _MEAN
    """Ways to get one number from all documents, the default first."""
    output_types: tuple[str, ...] = (_GENERATE,)
    """Output types of tasks that may use the metric."""
    higher_is_better: bool | None = True
    right_wrong: bool = False
    builders: Mapping[str, MeasureBuilder] = MappingProxyType({})
    """What replaces `build` for an aggregation that needs other values."""


def find_metric(name: str) -> MetricPlugin:
    """Return a metric: a built-in one, an installed one, or a class or module of the user."""
    plugin = plugins.find("metric", name)
    if isinstance(plugin, MetricPlugin):
        return plugin
    if not hasattr(plugin, "build") or not hasattr(plugin, "AGGREGATIONS"):
        file, _, attribute = name.partition(".py:")
        raise UsageError(
            f"{name} is not a metric: a metric has AGGREGATIONS and build(), see docs/extending.md. "
            f"For a function of (references, predictions) write `metric: !function {Path(file).name}.{attribute}`"
        )
    return MetricPlugin(
        name,
        plugin.build,
        plugin.AGGREGATIONS,
        getattr(plugin, "OUTPUT_TYPES", (_GENERATE,)),
        getattr(plugin, "HIGHER_IS_BETTER", None),
        getattr(plugin, "RIGHT_WRONG", False),
        {each: getattr(plugin, f"build_{each}", plugin.build) for each in plugin.AGGREGATIONS},
    )


# Builders of measures


def _build_acc() -> Measure:
    """For a generated answer, `acc` ignores white space around it; lm-evaluation-harness fails in this case."""
    return lambda target, answer: 1.0 if str(target).strip() == str(answer).strip() else 0.0


def _build_nothing() -> Measure:
    return lambda _target, _answer: None


def _build_pair() -> Measure:
    """Return the measure of metrics that need all documents: it returns target and answer for the aggregation."""
    return lambda target, answer: [target, answer]


def _sacrebleu_builder(name: str) -> MeasureBuilder:
    """Return a builder that raises MissingExtra, before the first request, if `assay[bleu]` is not installed."""

    def build() -> Measure:
        check_installed(name)
        return _build_pair()

    return build


_PUNCTUATION = str.maketrans("", "", string.punctuation)
_DIGITS = str.maketrans("", "", string.digits)


def build_exact_match(
    *,
    ignore_case: bool = False,
    ignore_punctuation: bool = False,
    ignore_numbers: bool = False,
    regexes_to_ignore: list[str] | None = None,
    quirks: bool = False,
) -> Measure:
    """Return the measure. Target and answer are cleaned in this order: regexes, case, ASCII punctuation, digits.

    Values that are not texts are compared unchanged: 1 equals 1.0 but not "1".

    `quirks` reproduces lm-evaluation-harness, which compares numpy arrays of fixed-length texts: NUL characters
    at the end are ignored, and a text that becomes longer in lower case is cut to its old length.
    """
    lower = _lower_in_place if quirks else str.lower
    steps: list[Callable[[str], str]] = [_without(pattern) for pattern in regexes_to_ignore or ()]
    steps += [lower] if ignore_case else []
    steps += [lambda text: text.translate(_PUNCTUATION)] if ignore_punctuation else []
    steps += [lambda text: text.translate(_DIGITS)] if ignore_numbers else []
    steps += [lambda text: text.rstrip("\0")] if quirks else []

    if not steps:
        return lambda target, answer: 1.0 if target == answer else 0.0

    def clean(text: Any) -> Any:
        for step in steps if isinstance(text, str) else ():
            text = step(text)
        return text

    return lambda target, answer: 1.0 if clean(target) == clean(answer) else 0.0


def _without(pattern: str) -> Callable[[str], str]:
    regex = compile_pattern(pattern)
    return lambda text: regex.sub("", text)


def _lower_in_place(text: str) -> str:
    return text.rstrip("\0").lower()[: len(text)]


_AVERAGES = ("micro", "macro", "weighted")


def _build_mean_f1(*, average: str | None = None) -> Measure:
    """Return the measure of `f1` with `aggregation: mean`: the word overlap of one answer with its target.

    With `average`, an option of Hugging Face `evaluate`, it is the F1 of each document's label: 1.0 if it is right,
    else 0.0. Of one document, all averages over labels are the same.
    """
    if average is None:
        return build_word_f1()
    if average not in _AVERAGES:
        raise UsageError(f"average is {', '.join(_AVERAGES[:-1])} or {_AVERAGES[-1]}, not {average!r}")
    return _build_acc()


def build_word_f1() -> Measure:
    """Return a measure: 2 * shared words / all words. Each Chinese character is a word. Two empty texts have 1.0."""
    from assay.scoring.text_overlap import overlap_f1  # its patterns take 2 ms, and most runs do not need them

    words = re.compile(r"[\u3400-\u9fff]|[^\W_]+").findall
    return lambda target, answer: overlap_f1(words(str(target).lower()), words(str(answer).lower()))


_SPACES = re.compile(r"\s\s+")


def _build_word_error_rate() -> Measure:
    return _word_error_rate


def _word_error_rate(target: Any, answer: Any) -> float:
    """Return the fewest words to insert, delete or replace, divided by the words of the target. It may exceed 1.

    Raises ValueError for a target without words.
    """
    expected, found = _split_words(target), _split_words(answer)
    if not expected:
        raise ValueError("the target has no words, so there is no word error rate")
    # One row of the table of edit distances between the beginnings of both texts.
    row = list(range(len(found) + 1))
    for number, word in enumerate(expected, 1):
        diagonal, row[0] = row[0], number
        for position, other in enumerate(found, 1):
            replaced = diagonal + (word != other)
            diagonal = row[position]
            row[position] = min(replaced, diagonal + 1, row[position - 1] + 1)
    return row[-1] / len(expected)


def _split_words(text: Any) -> list[str]:
    # jiwer splits at spaces only, and takes several white characters for one space.
    return [word for word in _SPACES.sub(" ", str(text)).strip().split(" ") if word]


# The table


def _of_likelihoods(
    name: str,
    aggregations: tuple[str, ...] = _MEAN,
    output_types: tuple[str, ...] = (_CHOICE,),
    *,
    higher_is_better: bool = True,
    right_wrong: bool = False,
) -> MetricPlugin:
    """Return a metric that has no measure for a generated answer."""

    def build() -> Measure:
        where = f"output_type {' or '.join(output_types)}" if output_types else "`process_results`"
        raise UsageError(f"{name!r} is computed from log-likelihoods; it can be used with {where} only")

    return MetricPlugin(name, build, aggregations, output_types, higher_is_better, right_wrong)


_LABELS = (_CHOICE, _GENERATE)
BUILT_IN = {
    metric.name: metric
    for metric in (
        # The right choice is the most likely one.
        MetricPlugin("acc", _build_acc, output_types=(_LIKELIHOOD, _CHOICE, _GENERATE), right_wrong=True),
        # All answers to a question are right (MultiRC). `process_results` returns pairs [model said yes, document].
        _of_likelihoods("acc_all", ("mean", "acc_all"), (), right_wrong=True),
        # The right choice has the highest log-likelihood per UTF-8 byte.
        _of_likelihoods("acc_bytes", right_wrong=True),
        # The prompt raises the log-likelihood of the right choice more than of any other.
        _of_likelihoods("acc_mutual_info", right_wrong=True),
        # The right choice has the highest log-likelihood per character.
        _of_likelihoods("acc_norm", right_wrong=True),
        # The same as `acc`, under the name that Hugging Face `evaluate` has for it.
        MetricPlugin("accuracy", _build_acc, right_wrong=True),
        # Negative log2-likelihood of the whole text, divided by its length in UTF-8 bytes.
        _of_likelihoods("bits_per_byte", ("bits_per_byte",), (_ROLLING,), higher_is_better=False),
        # Word sequences that answers share with references, over all documents (sacrebleu).
        MetricPlugin("bleu", _sacrebleu_builder("bleu"), ("bleu",)),
        # Squared distance between the probabilities of the choices and the right choice.
        _of_likelihoods("brier_score", ("brier_score",), higher_is_better=False),
        # Collects answers without scoring them. The value is always 999, as in lm-evaluation-harness.
        MetricPlugin("bypass", _build_nothing, ("bypass",), (_GENERATE, _LIKELIHOOD, _CHOICE, _ROLLING)),
        # Perplexity of the whole text per UTF-8 byte.
        _of_likelihoods("byte_perplexity", ("weighted_perplexity",), (_ROLLING,), higher_is_better=False),
        # Character sequences that answers share with references, over all documents; chrf++ adds words (sacrebleu).
        MetricPlugin("chrf", _sacrebleu_builder("chrf"), ("chrf",)),
        MetricPlugin("chrf++", _sacrebleu_builder("chrf++"), ("chrf++",)),
        MetricPlugin("exact_match", build_exact_match, output_types=(_GENERATE, _CHOICE), right_wrong=True),
        # F1 of labels over all documents; with the aggregation `mean`, of the words of each document.
        MetricPlugin("f1", _build_pair, ("f1", "mean"), _LABELS, builders={"mean": _build_mean_f1}),
        # The index of the right choice and all log-likelihoods. Needs an aggregation function of the user.
        _of_likelihoods("likelihood", ("mean",)),
        # Matthews correlation coefficient of target labels and answered labels, over all documents.
        MetricPlugin("mcc", _build_pair, ("matthews_corrcoef", "mcc"), _LABELS),
        # Perplexity of the target after the prompt.
        _of_likelihoods("perplexity", ("perplexity", *_MEAN), (_LIKELIHOOD,), higher_is_better=False),
        # Translation edit rate: the edits that turn answers into references, over all documents (sacrebleu).
        MetricPlugin("ter", _sacrebleu_builder("ter"), ("ter",), higher_is_better=False),
        # Word error rate of each answer, as Hugging Face `evaluate` and jiwer compute it.
        MetricPlugin("wer", _build_word_error_rate, higher_is_better=False),
        # Perplexity of the whole text per word.
        _of_likelihoods("word_perplexity", ("weighted_perplexity",), (_ROLLING,), higher_is_better=False),
    )
}
