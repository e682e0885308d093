"""Sessions on real providers, and a row that is run again after a stop."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import StopRun
from assay.core.protocols import Context, Model
from assay.core.registry import find
from assay.core.roles import Connection
from assay.core.threads import DaemonPool
from assay.suites.hop import messages
from assay.suites.hop.result import HopResult
from assay.suites.hop.session import Session
from assay.suites.hop.solver import call_function
from assay.suites.hop.sync_session import SyncSession

from support.hop_case import RUN, VERIFY, HopCase, Telling, result

MODEL = """
import json


def answer(prompt, params):
    task = prompt[-1]["content"]
    if "not accepted" in task:
        return json.dumps({"result": "Paris"})
    return json.dumps({"result": "Lyon"})
"""


def connect(provider: str, name: Path | str) -> Model:
    model: Model = find("model", provider).connect(Connection(name=str(name), seed=1))
    return model


def capital(session: SyncSession, row: dict[str, Any]) -> dict[str, Any]:
    status, found = session.hop_get(f"The capital of {row['country']}", return_format="one word")
    return {"status": status, "capital": found, "retries": session.retry_count}


def test_a_python_model_runs_and_a_recorded_one_verifies(tmp_path: Path) -> None:
    """The recorded verdicts are told apart by the result they are about."""
    (tmp_path / "model.py").write_text(MODEL)
    what, lines = messages.task_text("The capital of France\nThe result is one word.", ""), []
    for found, verdict in (("Lyon", "FAIL"), ("Paris", "OK")):
        said = messages.build_messages("reverse", what, {"result": found}, [])
        lines.append(json.dumps({"messages": said, "text": json.dumps({"verdict": verdict, "reason": "known"})}))
    (tmp_path / "verdicts.jsonl").write_text("\n".join(lines))
    run = connect("python", f"{tmp_path / 'model.py'}:answer")
    lab = HopCase(tmp_path / "run", run, connect("script", tmp_path / "verdicts.jsonl"))
    returned, _ = lab.call(capital, {"country": "France"})
    assert returned.value == {"status": "OK", "capital": "Paris", "retries": 1}
    assert len(lab.calls()) == 4


@pytest.mark.parametrize("most", range(1, 8))
def test_a_row_that_was_stopped_asks_only_for_the_rest(tmp_path: Path, most: int) -> None:
    """Wherever it stopped, the function runs again from its start and nothing is paid twice."""

    def function(session: SyncSession, row: Any) -> list[Any]:
        return [session.hop_get("a", verifier="cross"), session.hop_judge("b"), session.model.chat("c")]

    async def solve(ctx: Context) -> HopResult:
        pool = DaemonPool(1, "t", replaces=True)
        return await call_function(function, Session(ctx, RUN, VERIFY), {}, pool, 20)

    run, verify = Telling(result("True")), Telling('{"agrees": true, "verdict": "OK"}')
    lab = HopCase(tmp_path, run, verify)
    if most < 7:
        with pytest.raises(StopRun):
            asyncio.run(lab.start(solve, max_calls=most))
        assert len(run.asked) + len(verify.asked) == most
    told = asyncio.run(lab.start(solve))
    assert told.value == [["OK", "True"], ["OK", "True"], result("True")]
    assert len(run.asked) + len(verify.asked) == len(lab.calls()) == 7


def test_the_fingerprint_is_that_of_all_prompts() -> None:
    """Another wording may get another reply: it belongs to what is asked."""
    version, _, digest = messages.fingerprint().partition("@")
    assert (version, len(digest)) == ("v1", 64)
