"""What is shown of a case that went from right to wrong: the check that went two ways."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from assay.store.comparison import Comparison, compare

from support.runs import Made, passed


def compared(base: Path, new: Path) -> Comparison:
    (comparison,) = compare([str(base), str(new)]).comparisons
    return comparison


def test_a_flip_names_the_first_check_that_went_two_ways(tmp_path: Path) -> None:
    """With what both sides had there, and why it failed."""

    def checks(third: str) -> list[dict[str, Any]]:
        def check(path: str, actual: str) -> dict[str, Any]:
            good = actual == "right"
            why = "" if good else f"{actual!r} is not 'right'"
            return {
                "path": path,
                "kind": "equals",
                "expected": "right",
                "actual": actual,
                "passed": good,
                "why": why,
            }

        return [check("a", "right"), check("b", "wrong both times"), check("c", third)]

    base, new = Made(tmp_path / "base"), Made(tmp_path / "new")
    base.case("k", [passed(1, "test1", checks=checks("right"))])
    new.case("k", [passed(0, "test1", checks=checks("left"))])
    folders = base.finish(), new.finish()
    expected = {
        "path": "c",
        "kind": "equals",
        "expected": "right",
        "base": "right",
        "new": "left",
        "why": "'left' is not 'right'",
    }
    assert compared(*folders).now_failing.shown[0].check == expected
    back = compared(*reversed(folders)).now_passing.shown[0].check
    assert back == {**expected, "base": "left", "new": "right"}


def test_checks_of_equal_paths_belong_to_their_steps(tmp_path: Path) -> None:
    """A check is held against that of the same step; where a value is missing, against what stands there."""

    def check(step: str, kind: str, actual: int | None, *, good: bool) -> dict[str, Any]:
        said = {"of": "intermediate", "step": step, "path": "s", "kind": kind, "passed": good}
        return said | {"expected": 1, "why": f"why {step}"} | ({} if actual is None else {"actual": actual})

    base, new = Made(tmp_path / "base"), Made(tmp_path / "new")
    good = [check("a", "equal", 1, good=True), check("b", "equal", 2, good=True)]
    for at, bad in enumerate([check("a", "equal", 5, good=False), check("a", "missing", None, good=False)]):
        base.case(f"k{at}", [passed(1, "t", checks=good)])
        new.case(f"k{at}", [passed(0, "t", checks=[bad, check("b", "equal", 6, good=False)])])
    first, second = compared(base.finish(), new.finish()).now_failing.shown
    assert first.check == {
        "step": "a",
        "path": "s",
        "kind": "equal",
        "expected": 1,
        "base": 1,
        "new": 5,
        "why": "why a",
    }
    assert second.check == {**first.check, "kind": "missing", "new": None}
