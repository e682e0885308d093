"""Keys that stand in a `.env` file: `HOP_KEY_*` and `OPENAI_API_KEY`. Nothing else of such a file is read.

They are looked up where a key is needed, and put into no environment: the code under test does not see them.
"""

from __future__ import annotations

import re
from pathlib import Path

NAME = ".env"
COMMON_KEY = "OPENAI_API_KEY"
OWN_KEY = "HOP_KEY_"
_LINE = re.compile(
    r"""\s*(?:export\s+)?(?P<name>[A-Za-z_][\w.-]*)\s*=\s*
    (?:'(?P<plain>[^']*)'|"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^'"\s#].*?|))\s*(?:(?<=[\s'"=])\#.*)?""",
    re.VERBOSE,
)
_ESCAPED = re.compile(r"\\(.)")


def normalised(name: str) -> str:
    """As HOP compares the names of variables: `HOP_KEY_x-y.z` is `HOP_KEY_X_Y_Z`."""
    return re.sub(r"[-.]", "_", name).upper()


def keys_in(path: Path | str) -> dict[str, str]:
    """The keys by their names, HOP's own normalised; none if there is no such file. The last of two counts.

    A line is `NAME=VALUE`, `NAME='VALUE'` or `NAME="VALUE"`, perhaps with `export` before it and a comment
    behind it. Other lines and empty values say nothing.
    """
    try:
        text = Path(path).read_text("utf-8-sig", "replace") if path else ""
    except OSError:
        return {}
    found = (_LINE.fullmatch(line) for line in text.splitlines())
    pairs = ((_wanted(line["name"]), _value(line)) for line in found if line)
    return {name: value for name, value in pairs if name and value}


def _wanted(name: str) -> str:
    own = normalised(name)
    return own if own.startswith(OWN_KEY) else name if name == COMMON_KEY else ""


def _value(line: re.Match[str]) -> str:
    if (quoted := line["quoted"]) is not None:
        return _ESCAPED.sub(r"\1", quoted)
    return line["plain"] if line["plain"] is not None else line["bare"].strip()
