"""Gold never reaches the tested model, also with memories that call it."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

import assay
from assay.core.errors import ModelError
from assay.core.memory import Message
from assay.core.protocols import Context
from assay.core.types import Call, Failure, Request
from assay.core.usage import PurposeUsage
from assay.suites.memory.eval.suite import MemoryEvalSuite
from assay.suites.memory.memory_set import MemorySet
from assay.suites.memory.sessions import SampleInputs, SessionInputs, SessionQuestion, SessionsSolver
from assay.suites.memory.settings import MemorySetting
from assay.usercode.plugins import find_memory

from servers.judging import JudgingServer
from support.commands import typed
from support.judged_samples import STAGE_ONE, SUBJECT, JudgedSamples, reply
from support.memory_samples import Samples, entry_of, sample
from support.memory_talks import MEMORY

MARK = "GOLDMARK"
POINT = {"memory_type": MARK, "original_memories": [MARK], "importance": MARK, "note": {"why": [MARK]}}
QUESTION = {"question_type": MARK, "question_type_abbrev": MARK, "difficulty": MARK, "rationale": MARK}


def marked(sessions: int = 3) -> dict[str, Any]:
    """Return a sample with a mark in every gold field: points, answers, evidence, types, and unknown keys."""
    data = sample("s1", sessions)
    for block in data["memory_points"]:
        for point in block["memory_points"]:
            name = f"{MARK}_{point['memory_id']}"
            texts = {"memory_id": name, "memory_content": f"{MARK} {point['memory_content']}"}
            point.update(POINT, **texts)
    for checkpoint in data["qa_checkpoints"]:
        checkpoint.update(checkpoint_id=f"{MARK}_{checkpoint['checkpoint_id']}", hint=MARK)
        for question in checkpoint["questions"]:
            names = [{"memory_id": f"{MARK}_{item['memory_id']}"} for item in question["evidence"]]
            question.update(QUESTION, answer=f"{MARK} {question['answer']}", evidence=names)
    return data


@pytest.mark.parametrize("memory", ["GAMemory", "RFMemory", "MBMemory", "SCMemory", "MTMemory", "oracle"])
def test_requests_of_the_subject_have_no_gold(tmp_path: Path, memory: str) -> None:
    """Neither requests of the memory nor of the answers contain gold. All requests to judges do."""
    with JudgingServer(other=reply) as server:
        judged_samples = JudgedSamples(tmp_path / "samples", server, marked())
        run = judged_samples.run(baseline=[memory])
        bodies = [(body["model"], json.dumps(body)) for body in server.bodies]
    requests = [body for model, body in bodies if model == SUBJECT]
    judged = [body for model, body in bodies if model != SUBJECT]
    assert entry_of(run, memory).counts["samples"] == 1
    assert len([body for body in requests if "Question: " in body]) == 3
    assert memory == "oracle" or len(requests) > 3
    assert not [body for body in requests if MARK in body]
    assert judged
    assert all(MARK in body for body in judged)
    for name in STAGE_ONE:
        assert MARK in (judged_samples.out / name).read_text()


def test_a_missing_key_ends_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2 before any file is written, for a missing key of the model or of the judge."""
    for name in ("OPENAI_API_KEY", "OPENAI_API_KEY_JUDGE", "OPENAI_BASE_URL", "OPENAI_BASE_URL_JUDGE"):
        monkeypatch.delenv(name, raising=False)
    with JudgingServer(other=reply) as server:
        judged_samples = JudgedSamples(tmp_path / "samples", server)
        judged_samples.run(judge="offline")
    data, own = ("--dataset", f"{judged_samples.folder}/data", "--baseline", "bm25"), judged_samples.values()["model"]
    python = f"python/{judged_samples.folder}/model.py:answer"
    out = tmp_path / "out"
    for flags in (("--model", own, "--judge", "offline"), ("--model", python, "--judge", "openai/judge")):
        assert typed("memory", "eval", *data, *flags, "--output-dir", str(out)) == 2
        assert "OPENAI_API_KEY" in capsys.readouterr().err
        assert not out.exists()
    out.mkdir()
    for name in STAGE_ONE:
        (out / name).write_bytes((judged_samples.out / name).read_bytes())
    assert typed("memory", "eval", "--eval-only", "--judge", "openai/judge", "--output-dir", str(out)) == 2
    assert "OPENAI_API_KEY" in capsys.readouterr().err
    assert {path.name for path in out.iterdir()} == set(STAGE_ONE)


def test_only_memories_that_declare_it_have_evidence_in_their_inputs(tmp_path: Path) -> None:
    """Only the inputs of `oracle` have evidence."""
    samples = Samples(tmp_path, sample("s1", 2))
    spec = MemoryEvalSuite.resolve(assay.spec("memory-eval", **samples.values(baseline=["bm25,oracle"])))
    suite = MemoryEvalSuite(spec)
    (row,) = suite.rows().iterate()
    inputs = {
        subject: [due.evidence for visit in suite.case(row, subject).inputs.sessions for due in visit.questions]
        for subject in suite.subjects()
    }
    assert inputs == {"bm25": [(), ()], "oracle": [("0", "1"), ("2", "3")]}


def test_a_solver_passes_evidence_only_to_memories_that_declare_it(tmp_path: Path) -> None:
    """Even if the inputs have evidence. The memory logs every query."""
    (tmp_path / "own.py").write_text(MEMORY)
    own = find_memory(f"{tmp_path}/own.py:Own")
    message = Message("0", "hello")
    visits = SampleInputs("own", (SessionInputs("S01", (message,), (SessionQuestion("p/1", "who?", ("0",)),)),))
    for declared in (False, True):
        plugin = own._replace(about=msgspec.structs.replace(own.about, needs_evidence=declared))
        setting = MemorySetting(name="own", reference="own.py:Own", plugin=plugin, options={})
        solver = SessionsSolver(MemorySet({"own": setting}, "wordllama", 10.0))
        asyncio.run(solver.solve(visits, cast("Context", Silent())))
    assert (tmp_path / "log.txt").read_text().splitlines() == ["who? []", "who? ['0']"]


class Silent:
    """A context whose model calls all fail with a refusal."""

    def rng(self, name: str) -> random.Random:
        return random.Random(name)

    async def base_url(self, role: str = "main") -> str:
        return ""

    def emit(self, kind: str, data: Any, part: str = "") -> None:
        """Nobody reads it."""

    def model(self, role: str = "main") -> Any:
        return self

    name, endpoint, can = "nobody", "", frozenset[str]()
    purpose, usage, call_times = "", dict[str, PurposeUsage](), None

    async def call(self, request: Request) -> Call:
        raise ModelError(Failure("refusal", "nobody is there"))


def test_votes_that_have_no_effect_are_named(tmp_path: Path) -> None:
    samples = Samples(tmp_path, sample("s1", 2))
    values = samples.values(baseline=["bm25"], judge="offline", votes=3)
    suite = MemoryEvalSuite(MemoryEvalSuite.resolve(assay.spec("memory-eval", **values)))
    assert [notice for notice in suite.notices if "--votes 3 has no effect" in notice]
