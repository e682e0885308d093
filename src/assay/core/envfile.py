"""Reads API keys from a `.env` file: `HOP_KEY_*`, and `*_API_KEY` such as `OPENAI_API_KEY`. It ignores other variables.

The keys are not put into the environment, so that the code under test does not see them.
"""

from __future__ import annotations

import re
from pathlib import Path

NAME = ".env"
COMMON_KEY = "OPENAI_API_KEY"
OWN_KEY = "HOP_KEY_"
# The variables of all vendors end like this: ANTHROPIC_API_KEY, GEMINI_API_KEY, AZURE_OPENAI_API_KEY.
_VENDOR_KEY = "_API_KEY"
# NAME=VALUE with an optional `export`, quotes and a comment. A `#` starts a comment only after a space or quote.
_LINE = re.compile(
    r"""\s*(?:export\s+)?(?P<name>[A-Za-z_][\w.-]*)\s*=\s*
    (?:'(?P<plain>[^']*)'|"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^'"\s#].*?|))\s*(?:(?<=[\s'"=])\#.*)?""",
    re.VERBOSE,
)
_ESCAPED = re.compile(r"\\(.)")


def normalised(name: str) -> str:
    """Return a variable's name as HOP compares it: `HOP_KEY_x-y.z` becomes `HOP_KEY_X_Y_Z`."""
    return re.sub(r"[-.]", "_", name).upper()


def keys_in(path: Path | str) -> dict[str, str]:
    """Return the keys of a .env file by name; HOP's names are normalised. Empty if there is no such file.

    A line is `NAME=VALUE`, `NAME='VALUE'` or `NAME="VALUE"`, optionally with `export` before it and a comment after
    it. Other lines and empty values are ignored. If a name occurs twice, the last value counts.
    """
    try:
        text = Path(path).read_text("utf-8-sig", "replace") if path else ""
    except OSError:
        return {}
    matches = (_LINE.fullmatch(line) for line in text.splitlines())
    pairs = ((_key_name(match["name"]), _value(match)) for match in matches if match)
    return {name: value for name, value in pairs if name and value}


def _key_name(name: str) -> str:
    """Return the name under which a key is returned; empty for a variable that is not a key."""
    hop_name = normalised(name)
    if hop_name.startswith(OWN_KEY):
        return hop_name
    return name if name.endswith(_VENDOR_KEY) else ""


def _value(match: re.Match[str]) -> str:
    if (quoted := match["quoted"]) is not None:
        return _ESCAPED.sub(r"\1", quoted)
    return match["plain"] if match["plain"] is not None else match["bare"].strip()
