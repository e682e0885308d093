"""Finds candidates: `Oslo, Rome or Bonn`, `maybe in May, maybe in June`.

An answer that names several candidates does not commit itself. It is wrong if only some of them are right.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from assay.scoring.offline.words import function_words, words_of

# `or so`, `or more`, `or less` and `or not` name no second candidate.
OR = re.compile(r"\bor\b(?! (?:so|more|less|not)\b)|或者?", re.IGNORECASE)
_BETWEEN = re.compile(rf"{OR.pattern}|\b(?:maybe|perhaps|possibly)\b|也许|可能|要么", re.IGNORECASE)
# Every text that _BETWEEN splits has one of these in lower case, or is not ASCII.
_BETWEEN_HINT = re.compile("or|maybe|perhaps|possibly")
_CLAUSE_END = re.compile(r"[.:;!?](?!\d)|[。；：！？\n]")
_COMMA = re.compile(r",(?!\d)|[，、]")
# Text between two dates that are candidates.
BETWEEN_DATES = re.compile(rf"(?:[\s,;，、/]|\b(?:and|on|in|the)\b|和|在|{_BETWEEN.pattern})*", re.IGNORECASE)


def candidates_in(text: str, size: int, keep: Callable[[str], bool]) -> Iterator[list[list[str]]]:
    """Yield groups of candidates, each as those of its content words that `keep` accepts, or all if it has none.

    The words around a group belong to the sentence: of the first candidate only the last `size` words count, of
    the last one only the first.
    """
    if text.isascii() and not _BETWEEN_HINT.search(text.lower()):
        return
    for clause in _CLAUSE_END.split(text):
        segments = _BETWEEN.split(clause)
        if len(segments) < 2 or (not OR.search(clause) and len(segments) < 3):
            continue
        # After the last `or` stands one candidate; a comma ends it.
        parts = [part for segment in segments[:-1] for part in _COMMA.split(segment)]
        parts.append(_COMMA.split(segments[-1])[0])
        group: list[list[str]] = []
        for words in reversed([words_of(part) for part in parts]):
            all_content = [word for word in words if word not in function_words()]
            content = list(filter(keep, all_content)) or all_content
            if not content:
                continue
            group.append(content[-size:] if group else content[:size])
            # A longer part is the beginning of the sentence, and the first candidate stands at its end. Chinese
            # words are single characters, so more of them make a candidate.
            more = 1 if words[-1].isascii() else 2
            is_long = len(words) > min(size + 2 * more, len(all_content) + more)
            if is_long and len(group) > 1:
                break
        if len(group) > 1:
            yield group
