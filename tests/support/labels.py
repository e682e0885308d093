"""Labelled rows of invented answers, and a model that judges them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from servers.loopback import chat


def answer(n: int, *, right: bool, **fields: Any) -> dict[str, Any]:
    """An answer that the judge `offline` accepts if it is right; the label says the same unless told."""
    said = f"boat number {n}" if right else "no idea at all"
    base = {"question": f"Which boat is it, {n}?", "reference": f"boat number {n}", "response": said}
    return base | {"label": right} | fields


def text(n: int, *, label: bool) -> dict[str, Any]:
    """A text with a rubric; the judge passes it if `n` is even."""
    return {"rubric": "It is even.", "text": f"number {n}", "label": label}


def write(path: Path, rows: list[dict[str, Any]]) -> str:
    """JSON lines; gives the path as commands take it."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def even(body: dict[str, Any]) -> tuple[int, Any]:
    """Judges texts such as `number 4` by their last digit; `number 13` has no verdict."""
    asked = body["messages"][-1]["content"]
    number = int(asked.rpartition("number ")[2].split()[0])
    if number == 13:
        return 200, chat("Hard to say.")
    return 200, chat(json.dumps({"reason": f"{number}", "passed": number % 2 == 0}))
