"""The form of a suite's options, and the command line that a filled form means.

    form = OptionForm.of("task", {"tasks": "sums.yaml", "model": "local/smollm2"})
    form.words(root)        # ["task", "sums.yaml", "--model", "local/smollm2"]

The fields, their types, choices, defaults and texts are those of the suite's `Options` and of `RunSpec`, from which the
command line is made, too. An empty field is an option that was not passed. There is no field for an API key: keys come
from the environment of the server and never stand in an address or a command line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self, get_args, get_origin

from msgspec import Struct

from assay.core.errors import UsageError
from assay.core.spec import Field, RunSpec, SuiteOptions, build, fields
from assay.suites import find_options

# `list` has one value a line; `names` is a list in one line with suggestions, in which the suite allows commas.
Kind = Literal["text", "long", "number", "choice", "check", "list", "names", "pairs"]
# Options that print something instead of starting a run, that a page has no use for, or that start any program: whoever
# can open the page must not get a command of their choice.
_NO_FIELD = frozenset({"listing", "analyse", "all_files", "as_json", "write_out", "quiet", "serve"})
# What a person fills in first. All other options are folded.
_DATA = frozenset({"data", "dataset", "testset", "labels", "memory", "baseline"})
_MODEL = frozenset({"model", "base_url", "judge", "votes", "judge_base_url", "judge_prompt", "profiles", "no_answer"})
# Texts that are no names of files.
_FREE_TEXT = frozenset({"system_instruction", "base_url", "judge_base_url"})
# Options with suggestions of their own. All other texts are offered the files below DIR.
_SUGGESTIONS = {"model": "models", "judge": "judges", "memory": "memories", "baseline": "memories"}
_NO_FILES = frozenset(
    {"embedder", "profiles", "variant", "include_tags", "exclude_tags", "ids", "task_id", "categories"}
    | {"sample_id", "cluster", "seed"}
)
_OPTION = re.compile(r"option '(\w+)'")


class FormField(Struct, kw_only=True):
    """One option as a field of the form."""

    name: str
    label: str
    help: str
    kind: Kind
    value: str
    """The text of the field; "1" for a check box that is set."""
    default: str
    choices: list[str]
    suggestions: str
    """The id of a list of suggestions; empty for none."""
    has_error: bool = False


class FieldGroup(Struct):
    """Fields under one heading. A folded group is open if one of its fields has a value."""

    title: str
    fields: list[FormField]
    is_folded: bool = False


class OptionForm(Struct, kw_only=True):
    """A form with its values."""

    suite: str
    command: str
    about: str
    groups: list[FieldGroup]

    @classmethod
    def of(cls, suite: str, values: Mapping[str, str]) -> Self:
        """Return the form of a suite with these values. Raises UsageError for an unknown suite."""
        options = find_options(suite)
        titles = {"data": "Data", "model": "Model", "rest": "More options"}
        groups = {name: FieldGroup(title, []) for name, title in titles.items()}
        for field in _form_fields(options):
            group = "rest"
            if "positional" in field.extra or field.name in _DATA:
                group = "data"
            elif field.name in _MODEL:
                group = "model"
            groups[group].fields.append(_form_field(field, options, values.get(field.name)))
        rest = groups["rest"]
        rest.is_folded = not any(field.value != _initial(field) for field in rest.fields)
        about = (options.__doc__ or "").strip().partition("\n")[0]
        return cls(
            suite=suite,
            command=options.command or suite,
            about=about,
            groups=[group for group in groups.values() if group.fields],
        )

    @property
    def fields(self) -> list[FormField]:
        """The fields of all groups."""
        return [field for group in self.groups for field in group.fields]

    @property
    def values(self) -> dict[str, str]:
        """The texts of all fields that are not empty, as a form sends them."""
        return {field.name: field.value for field in self.fields if field.value}

    def mark_error(self, message: str) -> None:
        """Mark the field that a message of `words` or of the command is about."""
        named = _OPTION.search(message)
        for field in self.fields:
            field.has_error = (named is not None and field.name == named[1]) or field.label in message.split()
        for group in self.groups:
            group.is_folded = group.is_folded and not any(field.has_error for field in group.fields)

    def words(self, root: Path) -> list[str]:
        """Return the words after `assay` that the form means. Raises UsageError for a value that is not valid.

        Files must be below `root`, also behind links.
        """
        options = find_options(self.suite)
        values: dict[str, Any] = {}
        positional: list[str] = []
        flags: list[str] = []
        by_name = {field.name: field for field in self.fields}
        for field in _form_fields(options):
            shown = by_name[field.name]
            value = _value(shown)
            if value is None or value == _initial_value(shown):
                continue
            if shown.kind == "number":
                _refuse_no_number(field, shown)
            values[field.name] = value
            texts = value if isinstance(value, list) else [str(value)]
            if field.name not in _FREE_TEXT and shown.kind in ("text", "list", "names", "pairs"):
                for text in texts:
                    _refuse_outside(shown.label, text, root)
            if "positional" in field.extra:
                positional += texts
            else:
                flags += _flag_words(field, shown, texts)
        if dashed := next((text for text in positional if text.startswith("-")), None):
            raise UsageError(f"{dashed!r} begins like an option; write ./{dashed} for a file of this name")
        build(self.suite, options, options.translate_values(dict(values), lambda _: None))
        return [*self.command.split(), *positional, *flags]


def _form_fields(options: type[SuiteOptions]) -> list[Field]:
    """Return the options that a page shows: those of the suite, then those of all suites."""
    return [
        field
        for field in (*fields(options), *fields(RunSpec))
        if field.name not in _NO_FIELD and (field.extra.get("cli", True) or "positional" in field.extra)
    ]


def _form_field(field: Field, options: type[SuiteOptions], value: str | None) -> FormField:
    kind = _kind(field)
    default = "" if field.default in (None, "", [], {}) else str(field.default)
    if field.name == "output_dir":
        default = options.default_output
    # The default of some options depends on others; their own 0 or empty text says nothing.
    default = options.default_params.get(field.name, default)
    if kind == "check":
        default = "1" if field.default else ""
    choices = []
    if kind == "choice":
        literal = get_origin(field.plain_type) is Literal
        choices = [str(choice) for choice in get_args(field.plain_type)] if literal else ["true", "false"]
    suggestions = _SUGGESTIONS.get(field.name, "")
    if not suggestions and kind in ("text", "list") and field.name not in _NO_FILES | _FREE_TEXT:
        suggestions = "files"
    if kind == "list" and suggestions:
        kind = "names"
    return FormField(
        name=field.name,
        label=field.extra.get("positional") or field.flags[0],
        help=field.help,
        kind=kind,
        value=default if value is None and kind == "check" else (value or "").strip(),
        default=default,
        choices=choices,
        suggestions=suggestions,
    )


def _kind(field: Field) -> Kind:
    kind = field.plain_type
    if field.name == "system_instruction":
        return "long"
    if kind is bool:
        return "choice" if field.default is None else "check"
    if get_origin(kind) is Literal:
        return "choice"
    if get_origin(kind) is list:
        return "list"
    if get_origin(kind) is dict:
        return "pairs"
    return "number" if kind in (int, float) and not field.extra.get("as_text") else "text"


def _initial(field: FormField) -> str:
    return field.default if field.kind == "check" else ""


def _value(field: FormField) -> str | list[str] | bool | None:
    """Return the value of a field for `build`; None for an empty one."""
    if field.kind == "check":
        return bool(field.value)
    if field.kind == "names":
        return [field.value] if field.value else None
    if field.kind == "list":
        return [line.strip() for line in field.value.splitlines() if line.strip()] or None
    return field.value or None


def _initial_value(field: FormField) -> bool | None:
    return bool(field.default) if field.kind == "check" else None


def _flag_words(field: Field, shown: FormField, texts: Sequence[str]) -> list[str]:
    flag = field.flags[0]
    if shown.kind == "check":
        return [flag if shown.value else f"--no-{flag[2:]}"]
    words: list[str] = []
    for text in texts:
        # A value that begins with a dash would be read as the next option.
        words += [f"{flag}={text}"] if text.startswith("-") or shown.choices == ["true", "false"] else [flag, text]
    return words


def _refuse_no_number(field: Field, shown: FormField) -> None:
    try:
        field.plain_type(shown.value)
    except ValueError:
        kind = "a whole number" if field.plain_type is int else "a number"
        raise UsageError(f"{shown.label} takes {kind}, found {shown.value!r}") from None


def _refuse_outside(label: str, text: str, root: Path) -> None:
    """Raise UsageError if a text names a file outside of `root`.

    A text may be `a,b`, `FILE.py:name`, `python/FILE` or `key=FILE`.
    """
    for piece in text.split(","):
        if "://" in piece:
            continue  # an address
        inner = (piece, piece.partition("/")[2], piece.rpartition(":")[0], piece.partition("=")[2])
        for name in map(str.strip, inner):
            try:
                if name.startswith("~") or not (root / name).resolve().is_relative_to(root):
                    raise UsageError(
                        f"{label}: {name!r} is outside of {root}. A page starts runs on files below that folder only: "
                        "start `assay view` in a folder above the file, or type the command in a terminal"
                    )
            except (OSError, ValueError, RuntimeError):  # no file can be called so, or links lead in a circle
                continue
