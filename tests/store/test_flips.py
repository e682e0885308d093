"""What is shown of a case that went from right to wrong: the check that went two ways."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from assay.store.comparison import Comparison, compare
from assay.store.render.flips import Change, difference_line, flip_facts, word_changes

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


def test_the_words_that_differ_are_marked() -> None:
    before = "The meeting was on the third of May, so it is 21 as the paper says."
    after = "The meeting was on the fourth of May, so it is 22 as the paper says."
    changed = [change for change in word_changes(before, after) if change.kind != "same"]
    assert changed == [
        Change("removed", "third "),
        Change("added", "fourth "),
        Change("removed", "21 "),
        Change("added", "22 "),
    ]
    assert difference_line(before, after) == (
        "The meeting was on the [-third-] {+fourth+} of May, so it is [-21-] {+22+} as the paper says."
    )


def test_marks_keep_both_texts_whole() -> None:
    """What stays with what was removed is the text before; with what was added, the text after."""
    texts = [
        "",
        " ",
        "a",
        "a b  c\n\td",
        "b a c d e",
        "答案是三。",
        "答案是四。",
        "x" * 5000,
        "a b " * 600,
        "a b c " * 500,
    ]
    for before in texts:
        for after in texts:
            changes = word_changes(before, after)
            if changes:
                assert "".join(change.text for change in changes if change.kind != "added") == before
                assert "".join(change.text for change in changes if change.kind != "removed") == after
    assert word_changes("答案是三。", "答案是四。")[1] == Change("removed", "三")


def test_texts_that_share_little_are_not_marked() -> None:
    assert word_changes("yes", "no") == []
    assert word_changes("the same", "the same") == []


def test_only_the_surroundings_of_a_change_are_shown() -> None:
    before = f"{'begin ' * 100}4 {'middle ' * 100}5 {'end ' * 100}"
    line = difference_line(before, before.replace("4", "6").replace("5", "7"))
    assert re.fullmatch(r"…( begin)+ \[-4-\] \{\+6\+\} (middle )+…( middle)+ \[-5-\] \{\+7\+\} (end )+…", line), line


def test_a_flip_has_the_difference_of_long_answers(tmp_path: Path) -> None:
    """Also where it is behind the part of the answers that is shown."""
    runs = []
    for name, answer in (("base", "4"), ("new", "5")):
        run = Made(tmp_path / name)
        run.case("a", [passed(name == "base", filtered=[f"{'so ' * 200}it is {answer}"])])
        runs.append(run.finish())
    facts = dict(flip_facts(compared(*runs).now_failing.shown[0]))
    assert facts["base"].endswith("… (607 characters)")
    assert facts["difference"].endswith("it is [-4-]{+5+}")


def test_a_case_that_flips_in_several_metrics_counts_once(tmp_path: Path) -> None:
    """Two filters of one task disagree about a case less often than they agree."""

    def scores(strict: int, flexible: int) -> list[dict[str, Any]]:
        values = {"strict": strict, "flexible": flexible}
        return [{"metric": "em", "part": part, "value": value} for part, value in values.items()]

    base, new = Made(tmp_path / "base"), Made(tmp_path / "new")
    for key, after in {"both": (0, 0), "one": (1, 0), "none": (1, 1)}.items():
        base.case(key, scores(1, 1))
        new.case(key, scores(*after))
    failing = compared(base.finish(parts="filters"), new.finish(parts="filters")).now_failing
    assert failing.count == 2
    assert [(flip.case, flip.part, flip.also) for flip in failing.shown] == [
        ("both", "strict", ["em,flexible"]),
        ("one", "flexible", []),
    ]


def test_each_row_of_a_case_that_flips_counts(tmp_path: Path) -> None:
    base, new = Made(tmp_path / "base"), Made(tmp_path / "new")
    base.case("k", [passed(1, "test1"), passed(1, "test2"), passed(1, "test3")])
    new.case("k", [passed(0, "test1"), passed(0, "test2"), passed(1, "test3")])
    failing = compared(base.finish(), new.finish()).now_failing
    assert (failing.count, [flip.part for flip in failing.shown]) == (2, ["test1", "test2"])
