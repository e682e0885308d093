"""Named sets of prompts and rules that follow published evaluations: `--protocol locomo|longmemeval|mem0`.

One module for each set, with a `PROTOCOL`. Its prompts are in `prompts/`, in our own words: they follow the rules of
the published prompts, not their text. `docs/protocols.md` has what each evaluation does, and what differs here.
"""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

from msgspec import Struct

from assay.scoring.judge_setup import JudgeSetup
from assay.suites.memory.answer_prompt import MemoryPrompt
from assay.suites.memory.test.scorers import JudgeRules

PROMPTS = Path(__file__).with_name("prompts")


class Protocol(Struct, frozen=True, kw_only=True):
    """Defaults of a memory test. Each of them gives way to the flag of the same name."""

    name: str
    summary: str
    """What it does, in one sentence for the report."""
    answer_prompt: MemoryPrompt
    judge: JudgeSetup | None = None
    """The prompt and the votes of a judge model. None: answers are compared by their words."""
    rules: JudgeRules | None = None
    """The rules of {rule} in the prompt of the judge."""
    top_k: int
    ask: str
    skips_abstention: bool = False
    """Whether categories are left out whose every question has no answer in the conversation."""
    abstention_phrases: bool = False
    """Whether an abstention is known by LoCoMo's two phrases only, as its evaluation does."""


def protocol_names() -> list[str]:
    """Return the names of the sets."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def find_protocol(name: str | None) -> Protocol | None:
    """Return the set of this name; None for no name."""
    if name is None:
        return None
    protocol: Protocol = importlib.import_module(f"{__name__}.{name}").PROTOCOL
    return protocol
