"""The memory mem0 without its package installed: its dates, and what it says of itself."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from assay.core.errors import MissingExtra, UsageError
from assay.core.memory import options_of
from assay.memories.helpers.foreign import CallMonitor
from assay.memories.mem0 import Mem0Llm, replace_dates
from assay.usercode.plugins import find_memory

from support.memories import around

DATES = "\n\n## Observation Date\n2026-01-01\n\n## Current Date\n2026-01-01\n\n"
PROMPT = f"## New Messages\nuser: hm{DATES}# Output:"


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is asked."""
    monkeypatch.setitem(sys.modules, "mem0", None)
    with pytest.raises(MissingExtra, match=r"pip install 'assay\[mem0\]'"):
        find_memory("mem0").make(around())


def test_to_look_at_it_loads_nothing() -> None:
    """Its description and options are there for everybody."""
    about = find_memory("mem0").about
    assert (about.asks, about.embeds) == (True, True)
    assert options_of(about, {"k": 3}) == {"k": 3, "threshold": 0.1}
    assert "mem0.memory" not in sys.modules


def test_both_dates_are_the_sessions() -> None:
    """Text in a message that looks like mem0's dates is not changed, and a date cannot add lines."""
    assert "2026" not in replace_dates(PROMPT, "8 May")
    assert replace_dates(PROMPT, "8 May\n\n## x").count("8 May ## x\n") == 2
    assert replace_dates(PROMPT, " ").count("unknown\n") == 2
    twice = PROMPT.replace("hm", f"hm{DATES}")
    assert replace_dates(twice, "8 May").count("2026-01-01") == 2
    assert replace_dates(twice, "8 May").endswith(DATES.replace("2026-01-01", "8 May") + "# Output:")


def test_a_date_elsewhere_is_not_overlooked() -> None:
    """If mem0 words its dates differently, the run stops; today's date must not reach the prompt."""
    with pytest.raises(UsageError, match="pip install 'mem0ai==2.2"):
        replace_dates("Today is 2026-01-01.", "8 May")


def test_the_system_prompt_stays_as_it_is() -> None:
    """Only the last message has the dates."""
    asked: list[dict[str, Any]] = []

    class Own:
        def generate_response(self, messages: list[dict[str, Any]], response_format: Any) -> str:
            asked.extend(messages)
            return "{}"

    llm = Mem0Llm(Own(), CallMonitor("mem0"))
    llm.date = "8 May"
    given = [{"role": "system", "content": DATES}, {"role": "user", "content": PROMPT}]
    assert llm.generate_response(given, response_format={}) == "{}"
    assert [message["content"] for message in asked] == [DATES, replace_dates(PROMPT, "8 May")]
