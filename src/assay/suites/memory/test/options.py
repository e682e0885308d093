"""The options of `assay memory test`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, field

from assay.core.spec import JUDGE_PROMPT, ask, how
from assay.suites.memory.options import MemoryOptions


class MemoryTestOptions(MemoryOptions, frozen=True, kw_only=True):
    """Insert conversations into memories, two messages at a time, and test the questions that can be answered so far.

    Results are written below .sage/benchmarks/benchmark_memory: one file per conversation, and summary.json,
    curve.svg and retention.svg for all of them. The same command continues an interrupted run.
    """

    command: ClassVar[str] = "memory test"
    # The folder that SAGE's description of the format names.
    default_output: ClassVar[str] = ".sage/benchmarks/benchmark_memory"
    default_params: ClassVar[Mapping[str, str]] = {
        "answer_kwargs": "temperature=0,max_tokens=64",
        "build_kwargs": "temperature=0",
        "judge_kwargs": "temperature=0,max_tokens=2048",
        # Empty and 0 in the struct, so that a protocol gives way to a flag.
        "ask": "when-visible; at-end with --protocol",
        "top_k": "10, or that of --protocol",
    }
    examples: ClassVar[str] = """\
assay memory test --data examples/memory/talks.json --memory bm25 --no-answer
assay memory test --data locomo10.json --memory bm25,hybrid --references --model openai/NAME
assay memory test --data locomo10.json --memory my_memory.py:make --task-id conv-26 --model local/smollm2
assay memory test --data locomo10.json --memory bm25 --model openai/NAME --judge openai/JUDGE --votes 3
"""

    # Flags of `assay memory eval`.
    renamed: ClassVar[Mapping[str, str]] = {"--baseline": "--memory", "--sample-id": "--task-id"}

    dataset: Annotated[
        str, ask("Format of the data: locomo, longmemeval, plain, or FILE.py:load for your own loader.")
    ] = "locomo"
    data: Annotated[str, ask("File with the conversations.", content=True)] = ""
    memory: Annotated[list[str], ask("Memories to test, such as bm25,FUMemory, or FILE.py:make for your own.")] = field(
        default_factory=list
    )
    references: Annotated[
        bool,
        ask(
            "Also test the reference memories: none, FUMemory (all messages), STMemory (last messages), bm25 and "
            "oracle (the evidence)."
        ),
    ] = False
    task_id: Annotated[
        list[str], ask("Only these conversations, by number (0000 is the first) or by their id in the data.")
    ] = field(default_factory=list)
    protocol: Annotated[
        Literal["locomo", "longmemeval", "mem0"] | None,
        ask(
            "Answer and judge as a published evaluation does: locomo, longmemeval or mem0. It sets the prompts, --ask, "
            "--top-k and the categories; each of these flags overrides it. See docs/protocols.md."
        ),
    ] = None
    categories: Annotated[list[str], ask("Only questions of these categories, such as 1,2,3,4.")] = field(
        default_factory=list
    )
    ask: Annotated[
        str,
        ask(
            "When to ask. `when-visible`: in the tests of --trigger. `at-end`: once, after the last message, also "
            "questions without evidence. `both`. `every:N`: after every N messages, and at the end."
        ),
    ] = ""
    trigger: Annotated[
        Literal["increment", "segments"],
        ask(
            "When to test. `increment`: after every N newly answerable questions, N = questions // segments. "
            "`segments`: at each 1/segments of all questions."
        ),
    ] = "increment"
    segments: Annotated[int, ask("Number of parts into which --trigger divides the questions."), Meta(ge=1)] = 10
    final_test: Annotated[bool, ask("Run a final test after the last message if some question was never asked.")] = True
    top_k: Annotated[int, ask("Number of items to retrieve per question."), Meta(ge=1)] = 0
    answer_prompt: Annotated[
        str,
        ask(
            "Prompt file for the answers, instead of the built-in prompt. It needs {memories} and {question}; {date} "
            "is the date of the question.",
            content=True,
        ),
    ] = ""
    judge_prompt: Annotated[str, JUDGE_PROMPT] = ""
    no_answer: Annotated[bool, ask("Only search: no model answers, and only retrieval is scored.")] = False
    conversations: Annotated[
        int,
        how(
            "Conversations in progress at once, counted per memory.",
            flags=["--conversations", "--open-cases"],
        ),
        Meta(ge=1),
    ] = 8
