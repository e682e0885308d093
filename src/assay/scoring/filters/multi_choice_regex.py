"""Filter `multi_choice_regex`: finds the choice that a reply names.

It tries three ways in this order: a pattern, the text of a choice, and the letter of a choice after a colon.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import Any

from assay.core.errors import UsageError
from assay.language.patterns import compile_pattern
from assay.scoring.filters import DocFilter

TAKES_DOC = True

Find = Callable[[str], str]
FindAll = Callable[[str], list[Any]]


def build(
    *,
    regex_pattern: str = r"#### (\-?[0-9\.\,]+)",
    group_select: int = 0,
    fallback: str = "[invalid]",
    ignore_case: bool = False,
    ignore_punctuation: bool = False,
    regexes_to_ignore: list[str] | None = None,
) -> DocFilter:
    """Return the filter. A choice found by its text or letter becomes `(A)`, `(B)` and so on.

    A match of the pattern is returned unchanged. The `ignore` options and `regexes_to_ignore` apply only to the
    search by text.
    """
    by_pattern = _finder(compile_pattern(regex_pattern).findall, group_select, {})
    ignored = [compile_pattern(pattern) for pattern in regexes_to_ignore or ()]

    def clean(text: str) -> str:
        for pattern in ignored:
            text = pattern.sub("", text)
        text = text.lower() if ignore_case else text
        return _without_punctuation(text) if ignore_punctuation else text

    def find(replies: list[Any], doc: dict[str, Any]) -> list[str]:
        choices = [clean(str(choice).strip()) for choice in _choices(doc)]
        by_text, by_letter = (
            _finder(*_texts(choices, group_select)),
            _finder(*_letters(choices, group_select)),
        )
        texts = [reply if isinstance(reply, str) else "" for reply in replies]
        return [by_pattern(text) or by_text(clean(text)) or by_letter(text) or fallback for text in texts]

    return find


def _choices(doc: dict[str, Any]) -> Any:
    try:
        return doc["choices"]
    except KeyError:
        raise UsageError("multi_choice_regex needs documents with a column `choices`") from None


def _texts(choices: list[str], group_select: int) -> tuple[FindAll, int, dict[str, str]]:
    """Return the arguments of `_finder` for the texts of the choices.

    Longer texts come first in the pattern: otherwise a choice that is the beginning of another one would match.
    """
    patterns = sorted(map(re.escape, choices), key=len, reverse=True)
    return (
        re.compile("|".join(patterns)).findall,
        group_select,
        {text: _name(index) for index, text in enumerate(choices)},
    )


def _letters(choices: list[str], group_select: int) -> tuple[FindAll, int, dict[str, str]]:
    letters = [chr(ord("A") + index) for index in range(len(choices))]
    pattern = re.compile(rf":\s*({'|'.join(map(re.escape, letters))})")
    return pattern.findall, group_select, {letter: _name(index) for index, letter in enumerate(letters)}


def _name(index: int) -> str:
    return f"({chr(ord('A') + index)})"


def _finder(find_all: FindAll, group_select: int, names: dict[str, str]) -> Find:
    """Return a function that finds the selected match in a text and translates it by `names`.

    Of several groups the first that is not empty counts. The result is empty if there is no match.
    """

    def find(text: str) -> str:
        matches = find_all(text)
        if not matches:
            return ""
        match = matches[group_select]
        if isinstance(match, tuple):
            match = next((group for group in match if group), "")
        text = match.strip()
        return names.get(text, text) if text else ""

    return find


def _without_punctuation(text: str) -> str:
    """Return the text without the characters that Unicode classifies as punctuation."""
    return "".join(letter for letter in text if not unicodedata.category(letter).startswith("P"))
