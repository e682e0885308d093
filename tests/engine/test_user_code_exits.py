"""Code of a case that wants to end the program ends its case."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from assay.core.protocols import Context

from support.gateway_run import GatewayRun

SCRIPT = "script/replies.jsonl"


def leave_by_exit() -> None:
    """As code that was written as a script does."""
    sys.exit(0)


def leave_by_interrupt() -> None:
    """An interrupt that nobody typed."""
    raise KeyboardInterrupt


@pytest.mark.parametrize("leave", [leave_by_exit, leave_by_interrupt])
def test_sys_exit_in_a_solver_fails_its_case_with_the_traceback(
    leave: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next case runs, the run ends well, and the journal names the line that left."""
    monkeypatch.chdir(tmp_path)
    Path("replies.jsonl").write_text('{"prompt": "?", "text": "."}\n')
    lab = GatewayRun(tmp_path / "run", SCRIPT)
    lab.folder.mkdir()

    async def solve(inputs: Any, ctx: Context) -> None:
        if inputs == 0:
            leave()
        ctx.emit("answer", "there")

    assert asyncio.run(lab.start(solve, total=2)) is None
    first, second = lab.ends
    assert first is not None
    assert first.failure is not None
    assert first.status == "subject_error"
    assert first.failure.kind == "user_code"
    assert f"in {leave.__name__}" in first.failure.traceback
    assert second is not None
    assert second.status == "ok"
