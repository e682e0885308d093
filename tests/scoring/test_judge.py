"""Which judge a run has, and how it is told from others."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from assay.core.protocols import Context
from assay.core.roles import CHAT, Role
from assay.scoring import prompt_budget
from assay.scoring.judge import ROLE, Judge, judge_name
from assay.scoring.questions import CORRECT, KINDS, Verdict

from support.gateway_run import GatewayRun
from support.judge_questions import EXAMPLES

FUNCTION = '''
def judge(messages, params):
    """Finds everything correct."""
    return '{"reason": "fine", "label": "Correct"}'
'''


@pytest.mark.parametrize(
    ("given", "environ", "named"),
    [
        (None, {}, "offline"),
        ("offline", {"JUDGE_MODEL": "x"}, "offline"),
        ("gpt-4o", {"JUDGE_MODEL": "x", "OPENAI_MODEL": "y"}, "openai/gpt-4o"),
        (None, {"JUDGE_MODEL": "x", "OPENAI_MODEL": "y"}, "openai/x"),
        (None, {"OPENAI_MODEL_JUDGE": "z", "JUDGE_MODEL": "x"}, "openai/z"),
        (None, {"OPENAI_MODEL": "y"}, "openai/y"),
        (None, {"OPENAI_MODEL": ""}, "offline"),
        (None, {"JUDGE_MODEL": "local/smollm2"}, "local/smollm2"),
        (None, {"OPENAI_MODEL": "meta-llama/Llama-3"}, "openai/meta-llama/Llama-3"),
        ("openai/meta-llama/Llama-3", {}, "openai/meta-llama/Llama-3"),
        ("python/some/FILE.py:function", {}, "python/some/FILE.py:function"),
        (None, {"JUDGE_MODEL": "python/FILE.py:function"}, "python/FILE.py:function"),
        ("script/replies.jsonl", {}, "script/replies.jsonl"),
        ("opnai/gpt-4o", {}, "opnai/gpt-4o"),
    ],
)
def test_the_flag_wins_over_the_environment(given: str | None, environ: dict[str, str], named: str) -> None:
    """A bare name is one of OpenAI's kind; a provider that the flag misspells is left for its own error."""
    assert judge_name(given, environ) == named


def test_offline_needs_no_model() -> None:
    """`offline` needs no model role, has one vote, and judges every kind of question."""
    judge = Judge("offline", votes=5)
    ctx: Any = None
    assert (judge.votes, judge.roles) == (1, {})
    assert all(asyncio.run(judge.verdict(matter, ctx)).valid for matter in EXAMPLES.values())


def test_the_environment_may_give_the_judge_an_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """The role contains the name of the variable, never the key."""
    monkeypatch.delenv("OPENAI_BASE_URL_JUDGE", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY_JUDGE", raising=False)
    needs = frozenset({CHAT})
    assert Judge("openai/x").roles == {ROLE: Role("openai/x", needs=needs, mark="score")}
    monkeypatch.setenv("OPENAI_BASE_URL_JUDGE", "http://judge/v1")
    monkeypatch.setenv("OPENAI_API_KEY_JUDGE", "sk-judge")
    role = Role("openai/x", "http://judge/v1", "OPENAI_API_KEY_JUDGE", needs=needs, mark="score")
    assert Judge("openai/x").roles == {ROLE: role}


def test_a_judge_is_its_model_its_prompts_its_votes_and_its_budgets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another of them is another judge, for every kind."""
    judges = [Judge("openai/x"), Judge("openai/y"), Judge("openai/x", 3), Judge("offline")]
    assert len({judge.id for judge in judges}) == 4
    assert len({judges[0].fingerprint(kind) for kind in KINDS}) == len(KINDS)
    assert Judge("openai/x").id == judges[0].id
    before = judges[0].id
    monkeypatch.setattr(prompt_budget, "FINGERPRINT", ("bm25.v1", 41))
    assert Judge("openai/x").id != before


def test_a_function_of_the_user_judges_and_is_known_by_its_content(tmp_path: Path) -> None:
    """A changed file is another judge of the same name; a script of replies likewise."""
    file, script = tmp_path / "mine.py", tmp_path / "replies.jsonl"
    file.write_text(FUNCTION)
    script.write_text('{"text": "x"}\n')
    for name, path in ((f"python/{file}:judge", file), (f"script/{script}", script)):
        judge = Judge(judge_name(name, {}))
        before = judge.id
        assert before.startswith(f"{name}@")
        path.write_text(path.read_text() + "\n")
        assert Judge(name).id != before
    assert Judge("python/gone.py:judge").id.startswith("python/gone.py:judge@")
    found = []

    async def solve(_: Any, ctx: Context) -> None:
        found.append(await Judge(f"python/{file}:judge").verdict(EXAMPLES["answer"], ctx))

    asyncio.run(GatewayRun(tmp_path, f"python/{file}:judge").done(solve))
    assert found == [Verdict((CORRECT,), "fine")]


@pytest.mark.parametrize(
    ("judge", "votes", "notices"),
    [
        ("offline", 1, []),
        ("offline", 3, ["--votes 3 has no effect: the judge 'offline' gives equal votes"]),
        ("openai/x", 3, []),
    ],
)
def test_votes_without_effect_are_named(judge: str, votes: int, notices: list[str]) -> None:
    assert Judge(judge, votes).notices == notices
