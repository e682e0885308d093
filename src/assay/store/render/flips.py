"""The texts of a flip that all formats share: expected value, answers of both sides, and the words that differ.

    texts = flip_texts(flip)
    texts.expected, texts.base, texts.new
    word_changes(texts.base, texts.new)    # [Change("same", "It is "), Change("removed", "6"), Change("added", "7")]

The texts are raw: models wrote them. Each format escapes them in its own way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from assay.store.comparison import Flip

# Longer texts are cut. `assay show RUN CASE` prints them in full.
MAX_CHARS = 400
# Texts up to this length are compared at a glance, without marks.
_SHORT = 60
# difflib needs quadratic time in the words that differ.
_MAX_WORDS = 400
# If fewer words than this share stay, the marks would cover the whole text.
_MIN_SAME = 0.3
_CONTEXT = 40  # characters that are shown on each side of a change

# Words with the space after them; a Chinese, Japanese or Korean character is a word of its own.
_WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+\s*|[^\w\s]\s*|\s+"
)


class FlipTexts(NamedTuple):
    """What a flip shows. None stands for a value that the run does not have.

    `place` is the path and kind of the check that differs; it is empty if the whole answer was scored.
    """

    title: str
    place: str
    expected: str | None
    base: str | None
    new: str | None
    reasons: list[tuple[str, str]]


def flip_texts(flip: Flip) -> FlipTexts:
    """Return the texts of the check that differs, else target, answers and reasons of both sides."""
    title = flip_title(flip)
    check = flip.check
    if check is not None:
        # Checks are data of the journal, and an imported run may have any value there.
        where = " ".join(str(name) for name in (check.get("step"), check["path"]) if name)
        why = _text(check["why"])
        return FlipTexts(
            title,
            f"{where} ({check['kind']})",
            _text(check["expected"]),
            _text(check["base"]),
            _text(check["new"]),
            [("why", why)] if why else [],
        )
    sides = (("base", flip.base), ("new", flip.new))
    reasons = [(f"{name}, why", side.reason) for name, side in sides if side.reason]
    base, new = (answer_text(side.answer) for _, side in sides)
    return FlipTexts(title, "", _text(flip.target), base, new, reasons)


def answer_text(answer: Any) -> str | None:
    """Return the answer of a side. The answers of a task are a list with an item for each repeat."""
    return _text(answer[0] if isinstance(answer, list) and len(answer) == 1 else answer)


def flip_title(flip: Flip) -> str:
    """Return one line about a flip: case, metric and both values."""
    part = f",{flip.part}" if flip.part else ""
    row = "" if flip.id is None else f" · row {flip.id}"
    values = f"{flip.base.value:g} → {flip.new.value:g}"
    also = f" · also {', '.join(flip.also)}" if flip.also else ""
    return f"case {flip.new.index} · {flip.set}/{flip.case}{row} · {flip.metric}{part} · {values}{also}"


def flip_facts(flip: Flip) -> list[tuple[str, str]]:
    """Return the names and texts of a flip for plain text. Long texts are cut, and the words that differ follow."""
    texts = flip_texts(flip)
    expected = f"{texts.place} expected" if texts.place else "target"
    facts = [(expected, texts.expected), ("base", texts.base), ("new", texts.new)]
    if texts.base and texts.new and max(len(texts.base), len(texts.new)) > _SHORT:
        facts.append(("difference", difference_line(texts.base, texts.new) or None))
    facts += texts.reasons
    return [(name, cut(text, MAX_CHARS)) for name, text in facts if text is not None]


def cut(text: str, most: int) -> str:
    """Return at most `most` characters of a text, and the number of all if some are missing."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"


class Change(NamedTuple):
    """A piece of a text that stays, or that only one side has."""

    kind: Literal["same", "removed", "added"]
    text: str


def common_ends(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """Return how many first and how many last elements of two sequences are equal. No element counts in both."""
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    return start, end


def word_changes(before: str, after: str) -> list[Change]:
    """Return what changed between two texts, word by word. Empty if they are equal or have too little in common."""
    old, new = _WORD.findall(before), _WORD.findall(after)
    start, end = common_ends(old, new)
    old_middle, new_middle = old[start : len(old) - end], new[start : len(new) - end]
    if not old_middle and not new_middle:
        return []
    changes = [Change("same", "".join(old[:start]))]
    if max(len(old_middle), len(new_middle)) > _MAX_WORDS:
        changes += [Change("removed", "".join(old_middle)), Change("added", "".join(new_middle))]
    else:
        for kind, i, j, k, m in SequenceMatcher(None, old_middle, new_middle).get_opcodes():
            if kind == "equal":
                changes.append(Change("same", "".join(old_middle[i:j])))
            else:
                changes += [
                    Change("removed", "".join(old_middle[i:j])),
                    Change("added", "".join(new_middle[k:m])),
                ]
    changes.append(Change("same", "".join(old[len(old) - end :])))
    same = sum(len(change.text) for change in changes if change.kind == "same")
    if same < _MIN_SAME * max(len(before), len(after)):
        return []
    return [change for change in changes if change.text]


def difference_line(before: str, after: str) -> str:
    """Return the changes in one line: `… so it is [-6-] {+7+} of …`. Empty if there are none to show."""
    changes = word_changes(before, after)
    line = ""
    for number, (kind, text) in enumerate(changes):
        if kind != "same":
            # A word comes with the space after it. The space stands behind the mark, unless it is all that changed.
            words = text.rstrip() or text
            line += (f"[-{words}-]" if kind == "removed" else f"{{+{words}+}}") + text[len(words) :]
            continue
        is_first, is_last = number == 0, number == len(changes) - 1
        if len(text) > _CONTEXT * (2 - is_first - is_last):
            # Whole words, if there is a space to cut at.
            head = "" if is_first else re.sub(r"\s\S*\Z", " ", text[:_CONTEXT])
            tail = "" if is_last else re.sub(r"\A\S*\s", " ", text[-_CONTEXT:])
            line += f"{head}…{tail}"
        else:
            line += text
    return " ".join(line.split())


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)
