"""Where a contract stands: the front matter or a YAML block of `metainfo.md`, or a YAML file beside it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from assay.core.errors import InputError, Problem
from assay.core.yamlfile import YamlFile, load_yaml, parse_yaml

MARKDOWN = "metainfo.md"
BESIDE = ("contract.yaml", "contract.yml", "metainfo.yaml", "metainfo.yml")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})\s*(\w*)")
_TELLING = re.compile(r"^(inputs|outputs)\s*:", re.MULTILINE)
_RULE = "---"


def contract_files(folder: Path) -> list[YamlFile]:
    """Every contract of a folder, unread; a metainfo.md that is prose only has none."""
    found = []
    if (folder / MARKDOWN).is_file() and (yaml := markdown_contract(folder / MARKDOWN)) is not None:
        found.append(yaml)
    return found + [load_yaml(folder / name) for name in BESIDE if (folder / name).is_file()]


def markdown_contract(path: Path) -> YamlFile | None:
    """The mapping in a Markdown file, with the lines of that file; front matter first, if it has fields."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(Problem(str(path), f"cannot be read: {error}")) from None
    front = _front(lines, path)
    if front is not None and _TELLING.search(front):
        return parse_yaml(front, path)
    block = next((text for text in _blocks(lines) if _TELLING.search(text)), None)
    if block is not None:
        return parse_yaml(block, path)
    return parse_yaml(front, path) if front is not None and front.strip() else None


def _front(lines: list[str], path: Path) -> str | None:
    """What stands between the `---` of the first line and the next, in its place."""
    if not lines or lines[0].rstrip() != _RULE:
        return None
    end = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() in (_RULE, "...")), None)
    if end is None:
        raise InputError(Problem(f"{path}:1", "the front matter that begins here has no closing ---"))
    return "\n".join(["", *lines[1:end]])


def _blocks(lines: list[str]) -> Iterator[str]:
    """Every fenced block of YAML, with an empty line for each line before it."""
    at = 0
    while at < len(lines):
        fence = _FENCE.match(lines[at])
        at += 1
        if fence is None:
            continue
        start = at
        while at < len(lines) and not lines[at].strip().startswith(fence[1]):
            at += 1
        if fence[2].lower() in ("yaml", "yml"):
            yield "\n".join([""] * start + lines[start:at])
        at += 1


def near_key(key: str, known: Iterable[str]) -> str | None:
    """The key that was probably meant, if this one is nearly it."""
    from difflib import get_close_matches  # only files with other keys need it

    return next(iter(get_close_matches(key, list(known), n=1, cutoff=0.8)), None)
