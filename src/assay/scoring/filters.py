"""The built-in filters, in the table `BUILT_IN`. A filter extracts the scored answer from the replies of a model.

    find_filter("regex").build(regex_pattern="[0-9]+")(["It is 12."])          # ["12"]
    find_filter("my_filters.py:FirstLine")                                     # a user's class: see docs/extending.md

A filter gets the replies to one request, one for each repeat. It returns a list, or a single value if it selects one.
Replies are strings until a filter such as `map` replaces them.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from assay.core.errors import UsageError
from assay.language.patterns import compile_pattern
from assay.usercode import plugins

Filter = Callable[[list[Any]], Any]
DocFilter = Callable[[list[Any], dict[str, Any]], Any]

# The default pattern is that of GSM8K.
_NUMBER = r"#### (\-?[0-9\.\,]+)"


class FilterPlugin(Struct, frozen=True):
    """A filter. `build` returns its function, with the options as keyword arguments: a DocFilter if `takes_doc`."""

    build: Callable[..., Callable[..., Any]]
    takes_doc: bool = False


def find_filter(name: str) -> FilterPlugin:
    """Return a filter: a built-in one, an installed one, or a class or module of the user."""
    plugin = plugins.find("filter", name)
    if isinstance(plugin, FilterPlugin):
        return plugin
    return FilterPlugin(plugin.build, bool(getattr(plugin, "TAKES_DOC", False)))


def _build_custom(*, filter_fn: Callable[[list[list[Any]], list[dict[str, Any]]], Iterable[Any]]) -> DocFilter:
    """Return the filter. `filter_fn(resps, docs)` gets lists of one document and returns its filtered replies.

    lm-evaluation-harness calls the function once with all documents. assay calls it once per document, so a function
    that compares documents does not work here.
    """
    if not callable(filter_fn):
        raise UsageError(f"`filter_fn` is {filter_fn!r}; name a Python function: !function file.function")
    return lambda replies, doc: next(iter(filter_fn([replies], [doc])))


def _build_decontaminate(*, path: str = "") -> Filter:
    """Raise UsageError: a run must not claim to be decontaminated if it is not."""
    raise UsageError("`decontaminate` is not supported: in lm-evaluation-harness it does nothing. Remove this filter")


_LABELS = {
    "person": "PER",
    "location": "LOC",
    "organization": "ORG",
    "counties": "LOC",
    "places": "LOC",
    "people": "PER",
    "persons": "PER",
    "company": "ORG",
    "country": "LOC",
    "continent": "LOC",
    "time": "DATE",
    "date": "DATE",
    "per": "PER",
    "loc": "LOC",
    "org": "ORG",
}


def _build_format_span() -> Filter:
    """Return the filter. `person: Ada, Bo $$ places: Rome` becomes `per: ada $ per: bo $ loc: rome`."""
    labels = [(re.compile(rf"\b{name}\s*:"), f"{label}:") for name, label in _LABELS.items()]
    find_spans = re.compile(r"\b(PER|LOC|ORG|DATE):\s*([^$]+)").findall

    def format_spans(reply: str) -> str:
        """Return each entity with its label. Entities named "none" are left out."""
        text = reply.lower()
        for pattern, label in labels:
            text = pattern.sub(label, text)
        text = text.replace("$$", "$").rstrip("$").replace("\n", "$").strip()
        spans = [(label.lower(), entity.strip()) for label, names in find_spans(text) for entity in names.split(",")]
        return " $ ".join(f"{label}: {entity}" for label, entity in spans if entity.lower() != "none")

    return lambda replies: [format_spans(reply) for reply in replies]


def _build_lowercase() -> Filter:
    return lambda replies: [reply.lower() for reply in replies]


def build_majority_vote() -> Filter:
    """Return the filter. In a tie the earlier reply wins. An "[invalid]" of an earlier filter counts as a vote."""
    return lambda replies: [Counter(replies).most_common(1)[0][0]]


def _build_map(*, mapping_dict: dict[Any, Any] | None = None, default_value: Any = None) -> Filter:
    """Return the filter. A reply that is not in `mapping_dict` becomes `default_value`."""
    table = {} if mapping_dict is None else mapping_dict
    if not isinstance(table, dict):
        raise UsageError(f"`mapping_dict` is {table!r}; expected a mapping from replies to values")
    return lambda replies: [table.get(reply, default_value) for reply in replies]


def build_regex(*, regex_pattern: str = _NUMBER, group_select: int = 0, fallback: str = "[invalid]") -> Filter:
    """Return the filter, which extracts the part of a reply that a pattern matches.

    `group_select` is the index of the match: 0 is the first, -1 the last. If the pattern has several groups, the
    first group that is not empty counts.
    """
    find = compile_pattern(regex_pattern).findall

    def extract(reply: Any) -> str:
        matches = find(reply if isinstance(reply, str) else "")
        if not matches:
            return fallback
        match = matches[group_select]
        if isinstance(match, tuple):
            match = next((group for group in match if group), fallback)
        return str(match).strip()

    return lambda replies: [extract(reply) for reply in replies]


def _build_regex_pos(
    *, regex_pattern: str = r"\['(.*?)'\]", group_select: int = 0, fallback: list[str] | None = None
) -> Filter:
    """Return the filter, which extracts part-of-speech tags from replies such as `[('I', 'PRON'), ('run', 'VERB')]`.

    Each reply becomes its list of tags, or `fallback` if it has none. `regex_pattern` and `group_select` have no
    effect, as in lm-evaluation-harness.
    """
    compile_pattern(regex_pattern)
    find_words = re.compile(r"\('([^']*)', '([^']*)'\)").findall
    default_tags = ["invalid"] if fallback is None else fallback

    def tags(reply: Any) -> list[str]:
        pairs = find_words(reply) if isinstance(reply, str) else reply
        return [tag for _, tag in pairs] or default_tags

    return lambda replies: [tags(reply) for reply in replies]


def _build_remove_whitespace() -> Filter:
    return lambda replies: [reply.strip() for reply in replies]


def _build_take_first() -> Filter:
    return lambda replies: replies[0]


def build_take_first_k(*, k: int) -> Filter:
    """Return the filter. It raises ValueError for fewer than k replies, since a score maj@k needs k of them.

    Raises ValueError for a k below 1.
    """
    if type(k) is not int or k < 1:
        raise ValueError(f"take_first_k: expected a k of at least 1, found {k!r}")

    def take(replies: list[Any]) -> list[Any]:
        if len(replies) < k:
            raise ValueError(f"take_first_k needs {k} replies, but there are {len(replies)}; raise `repeats`")
        return replies[:k]

    return take


def _build_uppercase() -> Filter:
    return lambda replies: [reply.upper() for reply in replies]


# The choice that a reply names

_Find = Callable[[str], str]
_FindAll = Callable[[str], list[Any]]


def build_multi_choice_regex(
    *,
    regex_pattern: str = _NUMBER,
    group_select: int = 0,
    fallback: str = "[invalid]",
    ignore_case: bool = False,
    ignore_punctuation: bool = False,
    regexes_to_ignore: list[str] | None = None,
) -> DocFilter:
    """Return the filter. It looks for a pattern, then for the text of a choice, then for its letter after a colon.

    A choice found by its text or letter becomes `(A)`, `(B)` and so on. A match of the pattern is returned unchanged.
    The `ignore` options and `regexes_to_ignore` apply only to the search by text.
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


def _texts(choices: list[str], group_select: int) -> tuple[_FindAll, int, dict[str, str]]:
    """Return the arguments of `_finder` for the texts of the choices.

    Longer texts come first in the pattern: otherwise a choice that is the beginning of another one would match.
    """
    patterns = sorted(map(re.escape, choices), key=len, reverse=True)
    return (
        re.compile("|".join(patterns)).findall,
        group_select,
        {text: _choice_name(index) for index, text in enumerate(choices)},
    )


def _letters(choices: list[str], group_select: int) -> tuple[_FindAll, int, dict[str, str]]:
    letters = [chr(ord("A") + index) for index in range(len(choices))]
    pattern = re.compile(rf":\s*({'|'.join(map(re.escape, letters))})")
    return pattern.findall, group_select, {letter: _choice_name(index) for index, letter in enumerate(letters)}


def _choice_name(index: int) -> str:
    return f"({chr(ord('A') + index)})"


def _finder(find_all: _FindAll, group_select: int, names: dict[str, str]) -> _Find:
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


BUILT_IN = {
    "custom": FilterPlugin(_build_custom, takes_doc=True),
    "decontaminate": FilterPlugin(_build_decontaminate),
    "format_span": FilterPlugin(_build_format_span),
    "lowercase": FilterPlugin(_build_lowercase),
    "majority_vote": FilterPlugin(build_majority_vote),
    "map": FilterPlugin(_build_map),
    "multi_choice_regex": FilterPlugin(build_multi_choice_regex, takes_doc=True),
    "regex": FilterPlugin(build_regex),
    "regex_pos": FilterPlugin(_build_regex_pos),
    "remove_whitespace": FilterPlugin(_build_remove_whitespace),
    "take_first": FilterPlugin(_build_take_first),
    "take_first_k": FilterPlugin(build_take_first_k),
    "uppercase": FilterPlugin(_build_uppercase),
}
