"""What runs cost: real calls, priced by hand, and the same number wherever it is shown; and --max-cost."""

from __future__ import annotations

import json
import random
import re
import threading
from collections import Counter
from collections.abc import Iterator
from math import isnan
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core.dollars import dollars
from assay.core.errors import UsageError
from assay.runner import api
from assay.store.open_run import OpenRun

from conftest import Assay, write_docs
from servers.judging import by_words, question_of, said
from servers.loopback import LoopbackServer, chat
from support.web import Page, visit

# Dollars for a million tokens: input, output, cached input.
PRICES = {"openai/small": (3, 11, 0.7), "openai/judge": (40, 170, 40)}
TABLE = """\
as_of: 2026-01-31
models:
  openai/small: {input: 3, output: 11, cached_input: 0.7}
  openai/judge: {input: 40, output: 170}
"""
# With the tokens of `chat` (7 in, 2 out) a call costs one cent.
CENTS = "as_of: 2026-01-31\nmodels: {openai/m: {input: 1000, output: 1500}}\n"
TASK = ("task", "sums.yaml", "--model", "openai/m", "--output-dir", "out")


class PaidServer(LoopbackServer):
    """Answers and judges, with random numbers of tokens. `bill` is what the table says that they cost, by model."""

    def __init__(self) -> None:
        super().__init__(self._reply)
        self.bill: dict[str, float] = dict.fromkeys(PRICES, 0.0)
        self._draw = random.Random(16)
        self._lock = threading.Lock()

    def _reply(self, body: dict[str, Any]) -> tuple[int, Any]:
        question = question_of(body["messages"])
        status, reply = (200, chat("4")) if question is None else said(question, by_words(question))
        cached, fresh, output = (self._draw.randrange(1, 1000) for _ in range(3))
        reply["usage"] = {
            "prompt_tokens": cached + fresh,
            "completion_tokens": output,
            "prompt_tokens_details": {"cached_tokens": cached},
        }
        model = f"openai/{body['model']}"
        input_price, output_price, cached_price = PRICES[model]
        with self._lock:
            self.bill[model] += fresh * input_price + cached * cached_price + output * output_price
        return status, reply

    def dollars(self, *models: str) -> Any:
        """What the calls of these models cost."""
        return pytest.approx(sum(self.bill[model] for model in models) / 1e6, abs=1e-11)


@pytest.fixture
def here(sums: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the sums, with both tables."""
    monkeypatch.chdir(sums)
    monkeypatch.delenv("ASSAY_PRICES", raising=False)
    (sums / "prices.yaml").write_text(TABLE)
    (sums / "cents.yaml").write_text(CENTS)
    return sums


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer(lambda body: (200, chat("4"))) as running:
        yield running


def prompt_of(body: dict[str, Any]) -> str:
    text: str = body["messages"][-1]["content"]
    return text


def logged(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "calls.jsonl").read_text().splitlines()[1:]
    return [json.loads(line) for line in lines]


def judged_run(server: PaidServer, **more: Any) -> assay.Run:
    rows = [{"question": f"{n}+{n}?", "answer": str(2 * n)} for n in range(8)]
    return assay.evaluate(
        rows,
        model="openai/small",
        prompt="{{ question }}",
        score=["judge"],
        target="answer",
        judge="openai/judge",
        base_url=server.url,
        quiet=True,
        output_dir="out",
        **{"prices": "prices.yaml", **more},
    )


def test_the_log_the_summary_the_list_sql_and_the_pages_have_the_same_cost(here: Path, assay_in: Assay) -> None:
    with PaidServer() as server:
        run = judged_run(server)
    assert len(server.bodies) == 16
    both, judge = server.dollars(*PRICES), server.dollars("openai/judge")
    responses = [call["response"] for call in logged(run.folder)]
    assert sum(response["cost"] for response in responses) == both
    assert {response["price_table"] for response in responses} == set(run.summary.price_tables)
    assert run.cost == both
    assert run.summary.scoring_cost == judge
    assert assay.load("out").cost == run.cost

    (listed,) = json.loads(assay_in("runs", "out", "--json").stdout)
    assert listed["cost"] == run.cost
    assert run.cost is not None
    text = dollars(run.cost)
    assert text in assay_in("runs", "out").stdout
    assert f"cost {text}, {dollars(run.summary.scoring_cost)} of it for scoring (prices of 2026-01-31)" in (
        assay_in("show", "out").stdout
    )
    first = next(call for call in logged(run.folder) if call["index"] == 0)
    assert dollars(first["response"]["cost"]) in assay_in("show", "out", "--position", "0").stdout

    query = "select r.cost, sum(c.cost), min(c.price_table) from runs r, calls c group by all"
    (row,) = json.loads(assay_in("sql", query, "out", "--format", "json").stdout)
    assert list(row.values()) == [both, both, run.summary.price_tables[0]]

    progress = OpenRun(run.folder).progress()
    assert (progress.cost, progress.scoring_cost) == (both, judge)
    table = OpenRun(run.folder).table()
    assert table.column("cost").sum() == server.dollars("openai/small")
    visit(here, lambda client, _: _check_pages(client, run, text))


async def _check_pages(client: Any, run: assay.Run, text: str) -> None:
    for address in ("/", f"/run/out/assay/{run.folder.name}"):
        page = Page(await (await client.get(address)).text())
        assert text in page.text, address
    assert "prices of 2026-01-31" in page.text
    case = Page(await (await client.get(f"/case/0/out/assay/{run.folder.name}")).text())
    assert re.search(r"cost \$0\.0\d+", case.text)


def test_another_table_changes_no_run_that_exists_and_both_are_named_where_both_were_used(
    here: Path, server: LoopbackServer, assay_in: Assay
) -> None:
    flags = (*TASK, "--base-url", server.url, "--concurrency", "1")
    assert assay_in(*flags, "--prices", "cents.yaml", "--max-calls", "2").returncode == 3
    before = assay.load("out")
    assert before.cost == 0.02
    (here / "cents.yaml").write_text(CENTS.replace("01-31", "02-28").replace("1000", "2000"))
    assert assay.load("out").cost == 0.02
    ended = assay_in(*flags, "--prices", "cents.yaml")
    # Two calls of a cent, four of 0.014 + 0.003.
    assert "cost $0.088 (prices of 2026-01-31, 2026-02-28)" in ended.stdout
    assert assay.load("out").cost == 0.088
    # Nothing is left to ask: the finished run says what it said.
    (here / "cents.yaml").write_text(CENTS)
    assert "cost $0.088" in assay_in(*flags, "--prices", "cents.yaml").stdout


def test_the_cost_of_compared_runs_is_theirs_and_different_tables_are_told(
    here: Path, server: LoopbackServer, assay_in: Assay
) -> None:
    for name in ("one", "two"):
        flags = ("--base-url", server.url, "--output-dir", name, "--prices", "cents.yaml", "--fresh")
        assert assay_in(*TASK[:-2], *flags).returncode == 0
        (here / "cents.yaml").write_text(CENTS.replace("1000", "2000"))
    compared = assay_in("compare", "one", "two")
    assert re.findall(r"^(?:base|new) .* (\S+)$", compared.stdout, re.MULTILINE)[-2:] == ["$0.06", "$0.102"]
    assert "computed from different price tables" in compared.stdout
    assert "different price tables" not in assay_in("compare", "one", "one").stdout


def test_a_reported_price_counts_and_a_price_of_0_is_told_from_none(here: Path, assay_in: Assay) -> None:
    """Row 0 reports half a dollar, row 1 reports 0, the others nothing, and the table lacks the model."""

    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        reply = chat("4")
        for question, cost in (("0+0", 0.5), ("1+1", 0)):
            if question in prompt_of(body):
                reply["usage"]["cost"] = cost
        return 200, reply

    with LoopbackServer(answer) as server:
        assert assay_in(*TASK, "--base-url", server.url).returncode == 0
    run = assay.load("out")
    assert (run.cost, run.summary.price_tables) == (0.5, [])
    costs = OpenRun(run.folder).table().column("cost")
    assert [None if isnan(cost) else cost for cost in costs.tolist()] == [0.5, 0.0, None, None, None, None]
    answered = assay_in("sql", 'select cost from calls order by "index"', "out", "--format", "json")
    assert [row["cost"] for row in json.loads(answered.stdout)] == [0.5, 0.0, None, None, None, None]


def test_max_cost_stops_and_the_same_command_continues_without_paying_twice(
    here: Path, server: LoopbackServer, assay_in: Assay
) -> None:
    write_docs(here / "sums.jsonl", [{"question": f"{n}+{n}?", "answer": str(2 * n)} for n in range(20)])
    flags = (*TASK, "--base-url", server.url, "--prices", "cents.yaml", "--concurrency", "4")
    seen = 0
    for _ in range(5):
        ended = assay_in(*flags, "--max-cost", "0.05")
        calls, seen = len(server.bodies) - seen, len(server.bodies)
        if ended.returncode == 0:
            break
        assert ended.returncode == 3
        # Five calls reach the limit. At most three others were in flight then.
        assert 5 <= calls <= 8
        assert re.search(r"stopped at \$0\.0\d+, as --max-cost 0\.05 says", ended.stderr)
        assert "Continue with: assay task" in ended.stderr
        assert assay.load("out").cost == pytest.approx(seen * 0.01)
        assert len(logged(assay.load("out").folder)) == seen
    assert ended.returncode == 0
    assert assay.load("out").cost == pytest.approx(0.2)
    assert set(Counter(map(prompt_of, server.bodies)).values()) == {1}
    assert len(server.bodies) == 20


def test_the_limit_is_not_reached_by_replies_that_were_paid_before(
    here: Path, server: LoopbackServer, assay_in: Assay
) -> None:
    """A second run takes the replies of the first one, and pays for the rest only."""
    flags = ("--base-url", server.url, "--prices", "cents.yaml", "--concurrency", "1")
    assert assay_in(*TASK, *flags, "--limit", "4").returncode == 0
    ended = assay_in(*TASK, *flags, "--reuse", str(assay.load("out").folder), "--max-cost", "0.03")
    assert ended.returncode == 0
    assert len(server.bodies) == 6
    assert "cost $0.02" in ended.stdout


def test_the_judge_counts_for_the_limit(here: Path) -> None:
    with PaidServer() as server:
        run = judged_run(server, max_cost=0.0001, concurrency=1)
    assert run.exit_code == 3
    assert run.cost is not None
    assert run.cost > 0.0001
    assert len(server.bodies) < 16
    # The calls before the last one had not reached it.
    costs = [call["response"]["cost"] for call in logged(run.folder)]
    assert sum(costs[:-1]) < 0.0001


@pytest.mark.parametrize("name", ["openai/unknown", "python/model.py:answer"])
def test_a_limit_for_a_model_without_a_price_is_refused_before_the_first_call(
    here: Path, server: LoopbackServer, assay_in: Assay, name: str
) -> None:
    flags = ("--model", name, "--base-url", server.url, "--output-dir", "out", "--max-cost", "5")
    refused = assay_in("task", "sums.yaml", *flags)
    assert refused.returncode == 2
    assert f"--max-cost cannot be kept: assay's own price table has no price for {name}" in refused.stderr
    assert server.bodies == []
    assert not list(here.glob("out/assay/*"))
    (here / "zero.yaml").write_text("as_of: 2026-01-31\nmodels: {'*/*': {input: 0, output: 0}}\n")
    assert assay_in("task", "sums.yaml", *flags, "--prices", "zero.yaml").returncode == 0
    assert assay.load("out").cost == 0.0


def test_a_limit_of_a_run_without_models_is_refused(here: Path) -> None:
    with pytest.raises(UsageError, match="--max-cost limits nothing"):
        assay.evaluate([{"a": 1}], answer=lambda row: 1, max_cost=1, output_dir="out")


def test_a_reply_without_tokens_stops_a_limited_run_and_is_kept(here: Path, assay_in: Assay) -> None:
    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        return 200, {key: value for key, value in chat("4").items() if key != "usage"}

    with LoopbackServer(answer) as server:
        flags = (*TASK, "--base-url", server.url, "--prices", "cents.yaml", "--concurrency", "1")
        ended = assay_in(*flags, "--max-cost", "5")
        assert ended.returncode == 3
        assert "a reply of openai/m has no price, so --max-cost cannot be kept" in ended.stderr
        assert len(server.bodies) == len(logged(assay.load("out").folder)) == 1
        # Without the limit the run goes on, and its cost is not known.
        assert assay_in(*flags).returncode == 0
        assert len(server.bodies) == 6
    assert assay.load("out").cost is None


def test_a_dry_run_says_what_the_tokens_would_cost_or_why_that_is_unknown(
    here: Path, server: LoopbackServer, assay_in: Assay
) -> None:
    flags = (*TASK, "--base-url", server.url, "--dry-run")
    spec = assay.spec("task", tasks=["sums.yaml"], model="openai/m", base_url=server.url, prices="cents.yaml")
    (planned,) = api.overview(spec).calls
    assert planned.input_tokens
    assert planned.output_tokens
    cost = (planned.input_tokens * 1000 + planned.output_tokens * 1500) / 1e6
    assert planned.cost == pytest.approx(cost)
    shown = assay_in(*flags, "--prices", "cents.yaml").stdout
    assert f"cost: about {dollars(cost)} for the estimated tokens above, without retries." in shown
    assert "Prices: the price table cents.yaml, as of 2026-01-31" in shown
    assert "cost: unknown (no price for openai/m)" in assay_in(*flags).stdout
    judged = assay_in(*flags, "--prices", "cents.yaml", "--judge", "openai/m").stdout
    assert "Not in it: judge (tokens unknown)." in judged
    assert server.bodies == []


def test_a_bad_table_is_refused_with_file_and_line_before_anything_is_asked(
    here: Path, server: LoopbackServer, assay_in: Assay
) -> None:
    (here / "bad.yaml").write_text("as_of: 2026-01-31\nmodels:\n  openai/m: {input: 1}\n")
    refused = assay_in(*TASK, "--base-url", server.url, "--prices", "bad.yaml")
    assert refused.returncode == 2
    assert "bad.yaml:3: models.openai/m.output: is missing" in refused.stderr
    assert server.bodies == []
    checked = assay_in("check", "bad.yaml", "cents.yaml")
    assert checked.returncode == 1
    assert "bad.yaml: price table (--prices): 1 error, 0 warnings" in checked.stdout
    assert "cents.yaml: price table (--prices): " in checked.stdout


def test_the_table_in_use_is_printed_and_can_be_the_start_of_another(here: Path, assay_in: Assay) -> None:
    shown = assay_in("models", "prices", "--prices", "prices.yaml").stdout
    assert re.search(r"^openai/small +\$3\.00 +\$11\.00 +\$0\.70$", shown, re.MULTILINE)
    assert re.search(r"^openai/judge +\$40\.00 +\$170\.00 +\$40\.00$", shown, re.MULTILINE)
    assert "as of 2026-01-31" in shown
    (here / "copy.yaml").write_text(assay_in("models", "prices", "--yaml").stdout)
    own, copy = api.price_table(), api.price_table("copy.yaml")
    assert (copy.id, copy.models) == (own.id, own.models)


def refused() -> dict[str, Any]:
    """A reply in which the model declines. It is billed like any other: a cent."""
    reply = chat("")
    reply["choices"][0]["message"]["refusal"] = "I cannot help with that."
    return reply


def test_a_refusal_that_was_billed_has_its_tokens_and_its_price_everywhere(here: Path, assay_in: Assay) -> None:
    with LoopbackServer(lambda body: (200, refused() if "0+0" in prompt_of(body) else chat("4"))) as server:
        ended = assay_in(*TASK, "--base-url", server.url, "--prices", "cents.yaml")
    run = assay.load("out")
    assert (run.summary.subject_error, run.summary.spent.failed) == (1, 1)
    assert (run.cost, run.summary.spent.input_tokens) == (0.06, 6 * 7)
    assert "6 calls · 42 tokens in, 12 out · cost $0.06" in ended.stdout
    query = "select cost, input_tokens, reply, error_kind from calls where error_kind is not null"
    (row,) = json.loads(assay_in("sql", query, "out", "--format", "json").stdout)
    assert row == {"cost": 0.01, "input_tokens": 7, "reply": None, "error_kind": "refusal"}
    (total,) = json.loads(assay_in("sql", "select cost from runs", "out", "--format", "json").stdout)
    assert total["cost"] == pytest.approx(0.06)
    case = assay_in("show", "out", "--position", "0").stdout
    assert re.search(r"reply 0 failed \(.*\$0\.01\)\n +refusal: I cannot help with that\.", case)
    assert OpenRun(run.folder).progress().cost == pytest.approx(0.06)
    assert OpenRun(run.folder).table().column("cost").tolist() == [0.01] * 6


def test_refusals_reach_the_limit_and_are_neither_asked_again_nor_reused(here: Path, assay_in: Assay) -> None:
    with LoopbackServer(lambda body: (200, refused())) as server:
        flags = ("--base-url", server.url, "--prices", "cents.yaml", "--concurrency", "1")
        ended = assay_in(*TASK, *flags, "--max-cost", "0.03")
        assert ended.returncode == 3
        assert "stopped at $0.03, as --max-cost 0.03 says" in ended.stderr
        assert len(server.bodies) == 3
        assay_in(*TASK, *flags)
        assert len(server.bodies) == 6
        assert assay.load("out").cost == 0.06
        # Another run takes replies only, so it asks for these again.
        assay_in(*TASK, *flags, "--fresh", "--reuse", str(assay.load("out").folder))
        assert len(server.bodies) == 12


def test_a_cost_that_lacks_the_price_of_some_calls_says_so(here: Path, assay_in: Assay) -> None:
    (here / "small.yaml").write_text(TABLE.replace("openai/judge", "openai/other"))
    with PaidServer() as server:
        run = judged_run(server, prices="small.yaml")
    assert run.summary.spent.unpriced_calls == 8
    assert run.cost == server.dollars("openai/small")
    text = f"at least {dollars(run.cost)}"
    shown = assay_in("show", "out").stdout
    assert f"cost {text} (prices of 2026-01-31); 8 calls have no price" in shown
    assert text in assay_in("runs", "out").stdout
    (listed,) = json.loads(assay_in("runs", "out", "--json").stdout)
    assert (listed["cost"], listed["unpriced_calls"]) == (run.cost, 8)

    async def check(client: Any, _: Any) -> None:
        for address in ("/", f"/run/out/assay/{run.folder.name}"):
            page = Page(await (await client.get(address)).text())
            assert text in page.text, address
        assert "8 calls without a price" in page.text

    visit(here, check)


def test_a_model_without_an_endpoint_has_no_unpriced_calls(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "model.py").write_text("def answer(prompt, params):\n    return 'yes'\n")
    rows = [{"question": "1+1?", "answer": "2"}]
    with PaidServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        run = assay.evaluate(
            rows,
            model="python/model.py:answer",
            prompt="{{ question }}",
            score=["judge"],
            target="answer",
            judge="openai/judge",
            prices="prices.yaml",
            quiet=True,
            output_dir="out",
        )
    assert run.cost == server.dollars("openai/judge")
    assert run.summary.spent.unpriced_calls == 0
