"""The options of a run as values of its suite's form, so that a person changes one of them and starts again.

    options = options_of_run(info.spec, info.suite, started_in, root)
    OptionForm.of(info.suite, options.values)
    options.left_out        # ["--model-args: it may contain a key"]

The options are those of `run.json`. Those that equal their default are empty fields. An option that a form cannot have,
or that may contain a secret, is left out, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from assay.core.errors import UsageError
from assay.view.option_form import FormField, OptionForm

# Entries of run.json that are no options.
_NO_OPTIONS = frozenset({"suite", "options"})
_SECRET_NAME = re.compile(r"key|token|secret|passw|auth|credential", re.IGNORECASE)
# An address with a user or with parameters, in which services expect keys.
_SECRET_ADDRESS = re.compile(r"://[^/\s]*@|://\S*\?")


class RunOptions(Struct):
    """Texts of the fields by name, and a sentence for each option that has no text."""

    values: dict[str, str]
    left_out: list[str]


def options_of_run(spec: Mapping[str, Any], suite: str, folder: Path | None, root: Path) -> RunOptions:
    """Return the options of a run. `folder` is where it was started; `root` is where paths of the form begin.

    Raises UsageError for a suite that has no form.
    """
    given = {name: value for name, value in spec.items() if name not in _NO_OPTIONS}
    options = spec.get("options")
    given |= options if isinstance(options, Mapping) else {}
    found = RunOptions({}, [])
    for field in OptionForm.of(suite, {}).fields:
        value = given.pop(field.name, None)
        try:
            text = _text(field, value)
            if field.kind != "check" and text:
                _refuse_secret(value, text)
                if field.suggestions or field.kind == "text":
                    is_path = field.suggestions == "files"
                    text = _below_root(text, folder or root, root, is_path=is_path)
        except UsageError as error:
            found.left_out.append(f"{field.label}: {error}")
            continue
        if text != field.default and (text or field.kind == "check"):
            found.values[field.name] = text
    unknown = [name for name, value in given.items() if value not in (None, "", [], {}, False)]
    found.left_out += [f"{name}: the form has no such option" for name in unknown]
    return found


def _text(field: FormField, value: Any) -> str:
    """Return the text of a field. Raises UsageError for a value that it cannot have."""
    if value is None:
        return field.default if field.kind == "check" else ""
    if field.kind == "check":
        return "1" if value else ""
    if field.name == "base_url" and not str(value).startswith(("http://", "https://")):
        return ""  # the fingerprint of a file with a model
    if field.kind in ("list", "names") and isinstance(value, list):
        texts = [str(each) for each in value]
        between = "\n" if field.kind == "list" else ","
        if not all(isinstance(each, str | int | float) for each in value) or between in "".join(texts):
            raise UsageError("its values cannot be written as a list")
        return between.join(texts)
    if field.kind == "pairs" and isinstance(value, Mapping):
        text = ",".join(f"{name}={each}" for name, each in value.items())
        is_simple = all(isinstance(each, str | int | float) for each in value.values())
        if not is_simple or (text.count("="), text.count(",")) != (len(value), max(0, len(value) - 1)):
            raise UsageError("its values cannot be written as name=value,name=value")
        return text
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and str(value) != field.default:
        return str(int(value))  # `--limit 6` is a number with a fraction
    if isinstance(value, str | int | float):
        return str(value)
    raise UsageError("its value is no text")


def _refuse_secret(value: Any, text: str) -> None:
    names = value if isinstance(value, Mapping) else ()
    if any(_SECRET_NAME.search(str(name)) for name in names) or _SECRET_ADDRESS.search(text):
        raise UsageError("it may contain a key")


def _below_root(text: str, folder: Path, root: Path, *, is_path: bool) -> str:
    """Return a text whose files begin in `root` instead of `folder`. Raises UsageError for a file outside of it.

    A text may be `a,b`, `python/FILE.py:name` or a path. A piece that names no file stays as it is. Where names of
    models or memories are expected, not `is_path`, only a name with a suffix is that of a file.
    """
    pieces = []
    for piece in re.split("([,\n])", text):
        after_slash = piece.partition("/")[2]
        for name in (piece, piece.rpartition(":")[0], after_slash, after_slash.rpartition(":")[0]):
            if not name or not (Path(name).suffix or (is_path and name == piece)):
                continue
            try:
                path = (folder / name).resolve()
                if not path.exists():
                    continue
            except (OSError, ValueError, RuntimeError):  # no file can be called so, or links lead in a circle
                continue
            if not path.is_relative_to(root):
                raise UsageError(f"{name} is outside of the folder of this server")
            piece = piece.replace(name, str(path.relative_to(root)), 1)  # noqa: PLW2901 - the same piece, from `root`
            break
        pieces.append(piece)
    return "".join(pieces)
