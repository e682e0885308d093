"""DeepEval: it scores answers that a script of yours asks for, here with OpenAI's client."""

from __future__ import annotations

import json
from typing import ClassVar

from benchmarks.peers.peer import KEY, Command, Outcome, Peer, Work

_SCRIPT = """\
import asyncio
import json
from deepeval import evaluate
from deepeval.evaluate.configs import AsyncConfig, CacheConfig, DisplayConfig
from deepeval.metrics import ExactMatchMetric
from deepeval.test_case import LLMTestCase
from openai import AsyncOpenAI

rows = [json.loads(line) for line in open({data!r})]


async def generate():
    turns = asyncio.Semaphore({at_once})
    async with AsyncOpenAI(base_url={url!r}, api_key={key!r}) as client:

        async def ask(row):
            async with turns:
                reply = await client.chat.completions.create(
                    model="fake",
                    messages=[{{"role": "user", "content": row["question"]}}],
                    temperature=0,
                    max_tokens=16,
                )
            return LLMTestCase(
                input=row["question"],
                actual_output=reply.choices[0].message.content,
                expected_output=row["answer"],
            )

        return await asyncio.gather(*map(ask, rows))


evaluate(
    test_cases=asyncio.run(generate()),
    metrics=[ExactMatchMetric()],
    async_config=AsyncConfig(max_concurrent={at_once}),
    display_config=DisplayConfig(
        show_indicator=False, print_results=False, inspect_after_run=False, results_folder={output!r}
    ),
    cache_config=CacheConfig(write_cache={cache}, use_cache={cache}),
)
"""
_QUIET = {
    "DEEPEVAL_TELEMETRY_OPT_OUT": "1",
    "DEEPEVAL_NO_INSPECT_PROMPT": "1",
    "DEEPEVAL_DISABLE_DOTENV": "1",
}


class Deepeval(Peer):
    """Its cache of metrics is off where nothing is killed: it writes the whole run again for every case."""

    name: ClassVar[str] = "deepeval"
    title: ClassVar[str] = "DeepEval"
    how: ClassVar[str] = (
        "`evaluate(test_cases, [ExactMatchMetric()], …)` in a script that asks with `AsyncOpenAI`; "
        "`write_cache=False`, except where it is killed"
    )
    telemetry: ClassVar[str] = "`DEEPEVAL_TELEMETRY_OPT_OUT=1`"
    continues: ClassVar[str] = "the same script with `use_cache=True`; the answers are the script's own"
    no_viewer: ClassVar[str] = (
        "no viewer in a browser offline: its pages are a cloud; `deepeval inspect` is for terminals"
    )

    def start(self, work: Work) -> Command:
        """A script that asks and scores."""
        script = work.folder / "qa.py"
        values = {"data": str(work.data), "url": work.url, "key": KEY, "at_once": work.at_once}
        text = _SCRIPT.format(**values, output=str(work.output), cache=work.killed)
        script.write_text(text, encoding="utf-8")
        return self.python(script, **_QUIET)

    def outcome(self, work: Work) -> Outcome:
        """The newest file of the results folder has every test case."""
        newest = max(work.output.rglob("test_run_*.json"))
        cases = json.loads(newest.read_text(encoding="utf-8"))["testCases"]
        right = sum(case["success"] for case in cases)
        return Outcome(len(cases), 0, right / len(cases))
