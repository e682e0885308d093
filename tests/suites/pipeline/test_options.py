"""The effect of changing each option of `assay pipeline` on an existing run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core.spec import fields
from assay.suites.pipeline.options import PipelineOptions

from servers.loopback import LoopbackServer, chat

PIPELINE = """id: one
inputs: [text]
steps: [{id: say, template: "Say {{ text }}"}]
variants: {loud: {overrides: {say: {template: "Shout {{ text }}"}}}}
"""
TESTS = """{"id": "a", "tags": ["x"], "inputs": {"text": "a"}, "expected_outputs": {"say": "4"}}
{"id": "b", "tags": ["y"], "inputs": {"text": "b"}, "expected_outputs": {"say": "4"}}
"""
# option: another value, and whether it names another run.
TABLE: dict[str, tuple[Any, bool]] = {
    "pipeline": ("other.yaml", True),
    "agent": ("clerk", True),
    "flows": (["v2"], True),
    "testset": (["other.jsonl"], True),
    "variant": (["loud"], True),
    "include_tags": (["x"], True),
    "exclude_tags": (["x"], True),
    "ids": (["b"], True),
    "allow_code": (True, False),
    "outfile": ("table.csv", False),
    "min_kappa": (0.7, False),
}


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer(lambda body: (200, chat("4"))) as running:
        yield running


@pytest.fixture
def base(tmp_path: Path, server: LoopbackServer, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The options of a run that is finished."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    Path("one.yaml").write_text(PIPELINE)
    Path("other.yaml").write_text(PIPELINE.replace("Say", "Tell"))
    Path("tests.jsonl").write_text(TESTS)
    Path("other.jsonl").write_text(TESTS.replace('"text": "a"', '"text": "c"'))
    values = {"pipeline": "one.yaml", "testset": ["tests.jsonl"], "model": "openai/m"}
    values |= {"base_url": server.url, "output_dir": "out"}
    assert assay.run(assay.spec("pipeline", **values)).exit_code == 0
    return values


def test_the_table_names_every_option() -> None:
    """A new option must be added to this table."""
    assert set(TABLE) == {field.name for field in fields(PipelineOptions)}


@pytest.mark.parametrize("option", TABLE)
def test_changing_an_option_does_what_the_table_says(option: str, base: dict[str, Any], server: LoopbackServer) -> None:
    """An option that can change a reply starts a new run; a permission shows the finished one."""
    if option in ("agent", "flows"):
        # They take the place of a pipeline.
        for flow in ("v1", "v2"):
            Path("agents/clerk/prompts").mkdir(parents=True, exist_ok=True)
            Path(f"agents/clerk/prompts/{flow}.yaml").write_text(f"user_template: {flow} {{text}}")
        Path("agents/other/prompts").mkdir(parents=True)
        Path("agents/other/prompts/v1.yaml").write_text("user_template: 'other: {text}'")
        base = {**base, "pipeline": "", "agent": "other" if option == "agent" else "clerk"}
    before = assay.run(assay.spec("pipeline", **base))
    asked = len(server.bodies)
    value, another = TABLE[option]
    after = assay.run(assay.spec("pipeline", **{**base, option: value}))
    assert (after.folder != before.folder) == another
    assert (len(server.bodies) > asked) == another
