"""Groups of cases in a comparison: by tag, by the word of a tag, by set and by subject."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import UsageError
from assay.core.report import Entry, Report, Slice
from assay.store.comparison import Comparison, compare
from assay.store.comparison.slices import MAX_SLICES

from support.runs import Made, passed


def tagged(folder: Path, cases: Mapping[str, tuple[bool, tuple[str, ...]]], report: Report | None = None) -> str:
    """Write a run whose cases have a right or wrong score and tags."""
    run = Made(folder)
    for key, (value, tags) in cases.items():
        run.case(key, [passed(value)], tags=tags)
    return str(run.finish(report=report))


def compared(by: str, *runs: str) -> Comparison:
    (comparison,) = compare(runs, by=by).comparisons
    return comparison


def numbers(comparison: Comparison) -> dict[str, tuple[int, int, int]]:
    """Return pairs, wins and losses of the only row of each slice."""
    found = {}
    for each in comparison.slices:
        (row,) = each.rows
        found[each.name] = (row.n, row.wins, row.losses)
    return found


def test_every_tag_has_its_row_and_a_case_with_two_tags_is_in_both(tmp_path: Path) -> None:
    tags = {"a": ("hard", "long"), "b": ("hard",), "c": ("long",), "d": ()}
    base = tagged(tmp_path / "base", {key: (True, tags[key]) for key in tags})
    new = tagged(tmp_path / "new", {key: (key != "b", tags[key]) for key in reversed(tags)})
    comparison = compared("tag", base, new)
    assert numbers(comparison) == {"hard": (2, 0, 1), "long": (2, 0, 0)}
    assert comparison.rows[0].n == 4
    assert not compared("", base, new).slices


@pytest.mark.parametrize("sign", [":", "="])
def test_the_word_of_a_tag_chooses_the_tags(tmp_path: Path, sign: str) -> None:
    """The rest of the tag is the name. Numbers are sorted as numbers."""
    cases = {f"k{number}": (True, (f"category{sign}{number}", "other:1")) for number in (10, 9, 2)}
    runs = [tagged(tmp_path / name, cases) for name in ("base", "new")]
    assert list(numbers(compared("category", *runs))) == ["2", "9", "10"]
    assert numbers(compared("category", *runs))["9"] == (1, 0, 0)


def test_the_slices_of_a_report_say_which_tags_are_meant(tmp_path: Path) -> None:
    """Memory tests have the tag `2`, and their reports name it as a category with a label."""
    report = Report(
        entries=[Entry(name="m", slices=[Slice(by="category", name="2", label="temporal"), Slice(by="x", name="y")])]
    )
    cases = {"a": (True, ("2",)), "b": (True, ("y",))}
    runs = [tagged(tmp_path / name, cases, report) for name in ("base", "new")]
    (found,) = compared("category", *runs).slices
    assert (found.by, found.name, found.title, found.rows[0].n) == ("category", "2", "temporal", 1)


def test_tags_of_questions_are_in_their_scores(tmp_path: Path) -> None:
    """The tags of a score belong to its part, those of the case to all parts. Interim scores do not count."""
    runs = []
    for name in ("base", "new"):
        run = Made(tmp_path / name)
        scores: list[dict[str, Any]] = [
            {**passed(1, "q1"), "tags": ("easy",)},
            {**passed(0, "early"), "tags": ("easy",), "interim": True},
            {**passed(name == "base", "q2"), "tags": ("hard",)},
        ]
        run.case("talk", scores, tags=("all",))
        runs.append(str(run.finish(parts="rows")))
    assert numbers(compared("tag", *runs)) == {"all": (2, 0, 1), "easy": (1, 0, 0), "hard": (1, 0, 1)}


def test_what_is_left_out_is_counted_in_its_slice(tmp_path: Path) -> None:
    """A pair without a score in the new run has the tags of the base."""
    base, new = Made(tmp_path / "base"), Made(tmp_path / "new")
    base.case("a", [passed(1)], tags=("old",))
    base.case("b", [passed(1)], tags=("old",))
    new.case("a", [passed(1)], tags=("renamed",))
    new.case("b", tags=("renamed",))
    comparison = compared("tag", str(base.finish()), str(new.finish()))
    assert numbers(comparison) == {"old": (0, 0, 0), "renamed": (1, 0, 0)}
    assert comparison.slices[0].rows[0].left_out == {"not scored in new": 1}


def test_a_run_without_tags_takes_those_of_the_other(tmp_path: Path) -> None:
    base = tagged(tmp_path / "base", {"a": (True, ("x",)), "b": (True, ())})
    new = tagged(tmp_path / "new", {"a": (False, ()), "b": (True, ())})
    assert numbers(compared("tag", base, new)) == {"x": (1, 0, 1)}
    assert numbers(compared("tag", new, base)) == {"x": (1, 1, 0)}


def test_sets_and_subjects_are_groups_too(tmp_path: Path) -> None:
    runs = []
    for name in ("base", "new"):
        run = Made(tmp_path / name)
        for subject in ("s1", "s2"):
            run.case("a", [passed(1)], within="one", subject=subject)
            run.case("a", [passed(name == "base")], within="two", subject=subject)
        runs.append(str(run.finish()))
    for comparison in compare(runs, by="set").comparisons:
        assert numbers(comparison) == {"one": (1, 0, 0), "two": (1, 0, 1)}
    found = [numbers(comparison) for comparison in compare(runs, by="subject").comparisons]
    assert found == [{"s1": (2, 0, 1)}, {"s2": (2, 0, 1)}]


def test_a_metric_with_filters_keeps_its_sets(tmp_path: Path) -> None:
    """Filters of one name may do different things in two tasks, so there is no row over both."""
    runs = []
    for name in ("base", "new"):
        run = Made(tmp_path / name)
        for within in ("one", "two"):
            run.case("a", [passed(1, "strict"), {"metric": "f1", "value": 0.5}], within=within, tags=("t",))
        runs.append(str(run.finish(parts="filters")))
    (found,) = compared("tag", *runs).slices
    assert [(row.set, row.metric, row.n) for row in found.rows] == [
        ("", "f1", 2),
        ("one", "passed", 1),
        ("two", "passed", 1),
    ]


def test_a_word_that_no_tag_has_is_refused_with_the_tags_that_there_are(tmp_path: Path) -> None:
    runs = [tagged(tmp_path / name, {"a": (True, ("hard", "level:3"))}) for name in ("base", "new")]
    with pytest.raises(UsageError, match=r"--by color: no case .* 'color:NAME'.*'hard', 'level:3'; --by tag"):
        compare(runs, by="color")
    bare = [tagged(tmp_path / name, {"a": (True, ())}) for name in ("bare", "bare2")]
    with pytest.raises(UsageError, match=r"no case of .*bare and .*bare2 has a tag\. --by set"):
        compare(bare, by="tag")


def test_a_tag_for_each_case_is_refused(tmp_path: Path) -> None:
    cases = {f"k{number}": (True, (f"id:{number}",)) for number in range(MAX_SLICES + 1)}
    runs = [tagged(tmp_path / name, cases) for name in ("base", "new")]
    with pytest.raises(UsageError, match=r"--by id: there are 1,001 different values"):
        compare(runs, by="id")


def test_p_is_adjusted_for_all_slices_together(tmp_path: Path) -> None:
    """One of four groups differs with p 0.031. Among four groups that happens by chance, so it decides nothing."""
    keys = {f"{group}{number}": (f"g:{group}",) for group in "abcd" for number in range(6)}
    base = tagged(tmp_path / "base", {key: (True, tags) for key, tags in keys.items()})
    new = tagged(tmp_path / "new", {key: (key[0] != "a", tags) for key, tags in keys.items()})
    rows = [each.rows[0] for each in compared("g", base, new).slices]
    assert [row.p for row in rows] == pytest.approx([0.03125, 1.0, 1.0, 1.0])
    assert [row.p_adjusted for row in rows] == pytest.approx([0.125, 1.0, 1.0, 1.0])
    assert rows[0].verdict == "unclear"
