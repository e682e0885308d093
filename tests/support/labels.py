"""Labelled rows of invented answers, and a model that judges them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from servers.loopback import chat


def answer(n: int, *, right: bool, **fields: Any) -> dict[str, Any]:
    """Return an answer that the judge `offline` accepts if it is right. The label agrees unless it is given."""
    said = f"boat number {n}" if right else "no idea at all"
    base = {"question": f"Which boat is it, {n}?", "reference": f"boat number {n}", "response": said}
    return base | {"label": right} | fields


def text(n: int, *, label: bool) -> dict[str, Any]:
    """Return a text with a rubric. The judge passes it if `n` is even."""
    return {"rubric": "It is even.", "text": f"number {n}", "label": label}


def write(path: Path, rows: list[dict[str, Any]]) -> str:
    """Write JSON lines and return the path."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def even(body: dict[str, Any]) -> tuple[int, Any]:
    """Judge texts such as `number 4` by their last digit. `number 13` gets no verdict."""
    asked = body["messages"][-1]["content"]
    number = int(asked.rpartition("number ")[2].split()[0])
    if number == 13:
        return 200, chat("Hard to say.")
    return 200, chat(json.dumps({"reason": f"{number}", "passed": number % 2 == 0}))
