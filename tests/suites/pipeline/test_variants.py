"""Variants: which keys they may override, and their place in the files."""

from __future__ import annotations

from typing import Any

import pytest

from assay.core.errors import UsageError

from support.pipeline_project import PipelineProject, case, says


def with_variants(lab: PipelineProject, **changes: dict[str, Any]) -> None:
    """Variants of the step `one`, each with its changes."""
    variants = {name: {"overrides": {"one": change}} for name, change in changes.items()}
    lab.pipeline(says("one", "{{ text }}"), says("two", "{{ one }}2"), variants=variants)


@pytest.mark.parametrize(
    ("change", "output"),
    [
        ({"template": "say other {{ text }}"}, "other hello2"),
        ({"output_parser": {"type": "regex", "pattern": "h."}}, "he2"),
        ({"system": "s"}, "hello2"),
    ],
)
def test_a_variant_changes_its_step(lab: PipelineProject, change: dict[str, Any], output: str) -> None:
    """Later steps get the changed output."""
    with_variants(lab, v=change)
    assert lab.run(variant=["v"]).output("two") == output


def test_a_variant_changes_what_is_sent(lab: PipelineProject) -> None:
    """Parameters and the model."""
    with_variants(lab, v={"params": {"temperature": 0.5}, "model": "python/model.py:say_it", "system": "S"})
    lab.write("model.py", (lab.folder / "model.py").read_text() + "\nsay_it = answer\n")
    first = lab.run(variant=["v"]).calls()[0]["request"]
    assert first["params"] == {"temperature": 0.5}
    assert first["model"] == "python/model.py:say_it"
    assert first["messages"][0] == {"role": "system", "content": "S"}


def test_variants_are_side_by_side_in_the_files(lab: PipelineProject) -> None:
    """Test by test, in the given order; `all` selects those of the file."""
    with_variants(lab, v={"template": "say V{{ text }}"}, w={"template": "say W"})
    lab.tests(case("a"), case("b", inputs={"text": "x"}))
    ran = lab.run(variant=["w,baseline"])
    assert [(row["id"], row["variant"], row["outputs"]["two"]) for row in ran.rows] == [
        ("a", "w", "W2"),
        ("a", "baseline", "hello2"),
        ("b", "w", "W2"),
        ("b", "baseline", "x2"),
    ]
    assert ran.variants == ["w", "baseline"]
    for named in (["all"], ["w", "all"]):
        assert lab.run(variant=named).variants == ["baseline", "v", "w"]
    with pytest.raises(UsageError, match="there is no variant named 'u'"):
        lab.run(variant=["all", "u"])


def test_an_unknown_variant_is_reported_with_the_known_ones(lab: PipelineProject) -> None:
    """Before the first request."""
    with_variants(lab, shorter={"template": "say x"})
    with pytest.raises(UsageError, match="there is no variant named 'short'; did you mean 'shorter'"):
        lab.run(variant=["short"])
    assert not (lab.folder / "out").exists()
