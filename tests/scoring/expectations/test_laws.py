"""What holds for all expectations and outputs."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st

from assay.scoring.expectations import Matching, compare, expectation_problems, verdict

# Few names and few numbers, so that two values often meet.
names = st.sampled_from(["a", "b", "c", "ts"])
numbers = st.sampled_from([0, 1, 2, 1.0, 1.5, 0.9, 0.85, -1]) | st.floats(allow_nan=False)
leaves = st.none() | st.booleans() | numbers | st.sampled_from(["", "x", "y", "x: y", '{"a": 1}', "[1]"])
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
# Expected texts and what fits them.
FITTING = {"contains:1": "x1", "regex:x": "x", "non_empty:": "y", "max_chars:3": "x1", "equals:x": "x"}
prefixed = st.sampled_from([*FITTING, "regex:("])
expectations = st.recursive(
    leaves | prefixed,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
ignored = st.frozensets(st.sampled_from(["a", "b", "ts", "a.b", "a.ts", "b.c", "a.b.c"]), max_size=3)
tolerances = st.sampled_from([0.0, 0.05, 0.5, 1.0])
matchings = st.builds(Matching, strict=st.booleans(), tolerance=tolerances, ignore=ignored)


@st.composite
def related(draw: st.DrawFn, wanted: st.SearchStrategy[Any] = expectations) -> tuple[Any, Any]:
    """An expectation and an output that is mostly close to it."""
    expected = draw(wanted)
    close = draw(st.sampled_from([True, True, True, False]))
    return expected, changed(draw, expected) if close else draw(values)


def changed(draw: st.DrawFn, value: Any) -> Any:
    """The same value with more keys and some other leaves."""
    if isinstance(value, dict):
        more = draw(st.just({}) | st.dictionaries(names, leaves, max_size=1))
        return more | {key: changed(draw, item) for key, item in value.items()}
    if isinstance(value, list):
        return [changed(draw, item) for item in value]
    fitting = FITTING.get(value, value) if isinstance(value, str) else value
    return draw(st.sampled_from([fitting] * 8 + ["x", 1.0]))


def passes(expected: Any, actual: Any, matching: Matching) -> bool:
    return verdict(compare(expected, actual, matching)) is True


@given(related(), tolerances, ignored)
def test_strict_implies_lenient(pair: tuple[Any, Any], tolerance: float, ignore: frozenset[str]) -> None:
    """What passes in strict mode passes in lenient mode."""
    strict, lenient = (Matching(mode, tolerance, ignore) for mode in (True, False))
    assert passes(*pair, lenient) or not passes(*pair, strict)


@given(related(), matchings, ignored)
def test_ignoring_more_never_fails_more(pair: tuple[Any, Any], matching: Matching, more: frozenset[str]) -> None:
    """A further ignored field never turns a pass into a failure."""
    ignoring = Matching(matching.strict, matching.tolerance, matching.ignore | more)
    assert passes(*pair, ignoring) or not passes(*pair, matching)


@given(numbers | st.integers(), numbers | st.integers(), st.floats(0, 1e9), st.booleans())
def test_tolerance_is_symmetric(one: float, other: float, tolerance: float, strict: bool) -> None:
    """Which of two numbers was expected does not matter."""
    matching = Matching(strict, tolerance)
    assert passes(one, other, matching) == passes(other, one, matching)


@given(st.integers(-1000, 1000), st.integers(-1000, 1000), st.integers(1, 500), st.sampled_from([10, 100, 1000]))
def test_tolerance_is_what_decimals_say(one: int, other: int, tolerance: int, scale: int) -> None:
    """Numbers written in decimals are compared as decimals are, at the edge too."""
    matching = Matching(tolerance=tolerance / scale)
    assert passes(one / scale, other / scale, matching) == (abs(one - other) <= tolerance)


@given(values, matchings)
def test_a_value_matches_itself(value: Any, matching: Matching) -> None:
    """In both modes, whatever is tolerated or ignored."""
    assert passes(value, value, matching)


@given(related(values), tolerances, ignored, st.dictionaries(names, values, max_size=3))
def test_more_keys_never_break_lenient(
    pair: tuple[Any, Any], tolerance: float, ignore: frozenset[str], more: dict[str, Any]
) -> None:
    """An output that says more still contains what is expected."""
    expected, actual = pair
    matching = Matching(tolerance=tolerance, ignore=ignore)
    fuller = more | actual if isinstance(actual, dict) else actual
    assert passes(expected, fuller, matching) or not passes(expected, actual, matching)


@given(related(), matchings)
def test_failures_and_nothing_else_say_why(pair: tuple[Any, Any], matching: Matching) -> None:
    """There is always a check, and a sentence for each that failed."""
    checks = compare(*pair, matching)
    assert checks
    assert all(bool(check.why) == (not check.passed) for check in checks if check.kind != "nothing")


@given(expectations)
def test_only_patterns_that_cannot_be_used_are_problems(expected: Any) -> None:
    """The one bad prefix among the examples is found wherever it stands."""
    assert bool(expectation_problems(expected)) == ("regex:(" in str(expected))
