"""What holds for every plugin of a kind, whoever wrote it."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from assay.core import registry
from assay.core.errors import MissingExtra, UsageError
from assay.core.roles import CHAT, TEXT, About
from assay.core.spec import SuiteOptions, fields
from assay.core.types import Request, Response
from assay.scoring.filters import find_filter
from assay.scoring.metrics import BUILT_IN, DEFAULT_METRICS, find_metric
from assay.scoring.questions import KINDS
from assay.scoring.statistics import AGGREGATIONS
from assay.suites import find_options, find_suite, suite_names
from assay.suites.task.metrics import LIKELIHOOD_METRICS

# Options without which a filter cannot be built.
NEEDED: dict[str, Any] = {"take_first_k": {"k": 2}, "custom": {"filter_fn": lambda resps, _docs: resps}}
# Replies of another kind than plain text.
SPECIAL = {"regex_pos": ["('a', 'b')"] * 3}
OUTPUT_TYPES = set(DEFAULT_METRICS)


@pytest.mark.parametrize("name", registry.names("model"))
def test_a_provider_says_what_it_is_before_it_is_connected(name: str) -> None:
    """`assay models` needs no key, no endpoint and no file."""
    about = registry.find("model", name).ABOUT
    assert isinstance(about, About)
    assert about.can <= {CHAT, TEXT, "loglikelihood", "embeddings", "json_schema"}
    assert about.example.startswith(f"{name}/")
    assert about.summary
    assert about.needs


@pytest.mark.parametrize("name", registry.names("metric"))
def test_a_metric_agrees_with_itself(name: str) -> None:
    """A metric names its aggregation, and an answer equal to its target is never worse than another."""
    metric = find_metric(name)
    assert metric.name == name
    assert metric.aggregations
    assert set(metric.aggregations) <= set(AGGREGATIONS)
    assert set(metric.builders) <= set(metric.aggregations)
    assert set(metric.output_types) <= OUTPUT_TYPES
    if "generate_until" not in metric.output_types:
        with pytest.raises(UsageError, match=f"{name}' is computed from log-likelihoods"):
            metric.build()
        return
    try:
        measure = metric.build()
    except MissingExtra:
        return
    if metric.right_wrong:
        assert (measure("a b", "a b"), measure("a b", "c")) == (1.0, 0.0)


@pytest.mark.parametrize(("output_type", "metrics"), DEFAULT_METRICS.items())
def test_defaults_fit_their_output_type(output_type: str, metrics: tuple[str, ...]) -> None:
    """What a task without metrics is scored by exists, and may be used there."""
    assert all(output_type in find_metric(name).output_types for name in metrics)


@pytest.mark.parametrize(("output_type", "metrics"), LIKELIHOOD_METRICS.items())
def test_a_metric_declares_the_likelihoods_that_it_is_computed_from(output_type: str, metrics: tuple[str, ...]) -> None:
    """A metric that declares an output type has a function for it in `suites/task/metrics.py`, and the reverse."""
    declared = {name for name, metric in BUILT_IN.items() if output_type in metric.output_types}
    assert declared == set(metrics)


@pytest.mark.parametrize("name", sorted(set(registry.names("filter")) - {"decontaminate"}))
def test_a_filter_takes_the_list_of_replies(name: str) -> None:
    """A filter gives a list, or one value where it selects, and leaves the replies and the doc alone."""
    replies, doc = list(SPECIAL.get(name, ["a", "b", "a"])), {"choices": ["x", "y"]}
    before = list(replies)
    plugin = find_filter(name)
    built = plugin.build(**NEEDED.get(name, {}))
    filtered = built(replies, doc) if plugin.takes_doc else built(replies)
    assert (replies, doc) == (before, {"choices": ["x", "y"]})
    assert filtered == "a" or (isinstance(filtered, list) and 1 <= len(filtered) <= 3)


@pytest.mark.parametrize("name", sorted(set(registry.names("judge")) - set(KINDS)))
def test_a_judge_never_guesses(name: str) -> None:
    """A judge is known by its prompt, and what is no verdict is neither a pass nor a failure."""
    judge = registry.find("judge", name).build()
    assert judge.fingerprint
    said = asyncio.run(judge.judge(Evasive(), "It is kind.", "Hello"))
    assert (said.passed, said.status) == (None, "invalid")
    assert said.reason


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_matter_has_a_judge(kind: str) -> None:
    """It is known by its prompt and its parameters; tests/scoring shows that it never guesses."""
    judge = registry.find("judge", kind).build()
    assert judge.fingerprint.startswith(f"{kind}.v")
    assert judge.params["temperature"] == 0


class Evasive:
    """A model that judges nothing."""

    name, endpoint = "script/evasive", ""

    async def ask(self, request: Request) -> Response:
        return Response("Hard to say.")


@pytest.mark.parametrize("kind", ["metric", "filter", "judge"])
def test_options_are_keywords(kind: str) -> None:
    """Options of a plugin are keyword parameters, so that a wrong one in a file is known by name."""
    for name in registry.names(kind):
        for parameter in inspect.signature(registry.find(kind, name).build).parameters.values():
            assert parameter.kind is parameter.KEYWORD_ONLY, f"{kind} {name} {parameter.name}"


@pytest.mark.parametrize("name", suite_names())
def test_a_suite_marks_its_options(name: str) -> None:
    """Every option of every suite is marked and explained, and so is its command."""
    options = find_options(name)
    assert issubclass(options, SuiteOptions)
    assert all(field.help for field in fields(options))
    assert options.__doc__
    assert find_suite(name).Options is options
