"""docs/python.md is executed: its blocks are one program, and each prints what the page shows.

The tables of docs/python-reference.md name the parameters, attributes and messages of the code.
"""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import assay
from assay.core.report import Metric

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "python.md").read_text()
REFERENCE = (ROOT / "docs" / "python-reference.md").read_text()
BLOCK = re.compile(r"(?:`([\w.]+)`:\n\n)?^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
END_OF_BLOCK = "-- end of block --"


def run_in(folder: Path, *words: str) -> str:
    """Run Python in a folder of its own, where calibrations are stored too. Returns its output."""
    environment = {"PATH": "", "ASSAY_DATA": str(folder / "data"), "PYTHONPATH": str(ROOT / "src")}
    result = subprocess.run(
        [sys.executable, *words], cwd=folder, capture_output=True, text=True, check=False, env=environment
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_the_examples_print_what_the_page_shows(tmp_path: Path) -> None:
    """The program is a file, because assay reads the source of functions."""
    program, shown = "", []
    for name, language, text in BLOCK.findall(PAGE):
        if language == "python" and not name:
            program += f"{text}print({END_OF_BLOCK!r})\n"
            shown.append("")
        elif name:
            (tmp_path / name).write_text(text)
        elif not language:
            shown[-1] = text
    assert len(shown) == 7
    (tmp_path / "page.py").write_text(program)
    outputs = run_in(tmp_path, "page.py").split(f"{END_OF_BLOCK}\n")
    assert outputs[:-1] == shown
    # The second start shows the finished runs, and the calibration that was known then.
    assert run_in(tmp_path, "page.py") == "".join(f"{text}{END_OF_BLOCK}\n" for text in outputs[:-1])


def test_the_pytest_example_passes(tmp_path: Path) -> None:
    ((name, text),) = [(name, text) for name, language, text in BLOCK.findall(PAGE) if name.endswith(".py")]
    (tmp_path / name).write_text(text)
    assert "1 passed" in run_in(tmp_path, "-m", "pytest", "-p", "no:cacheprovider", "-q", name)


def section(heading: str) -> str:
    """The text below a heading of the reference, up to the next one."""
    return REFERENCE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def test_the_page_names_every_parameter_and_no_other() -> None:
    table = section("Parameters").partition("\n\n| a function")[0]
    cells = [line.split(" | ")[1] for line in table.splitlines()[3:]]
    names = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert names == set(inspect.signature(assay.evaluate).parameters)


def test_the_page_names_attributes_that_exist() -> None:
    """All of a run and of a case, and those of a metric that a reader needs."""
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", section("Results"), re.MULTILINE))
    named = {name: set(re.findall(r"`(\w+)(?:\(.*?\))?`", text)) - {"low", "high", "id"} for name, text in rows.items()}
    assert named["Metric"] <= set(Metric.__struct_fields__)
    for cls in (assay.Run, assay.RunCase):
        code = inspect.getsource(cls)
        own = set(re.findall(r"^        self\.([a-z]\w*): ", code, re.MULTILINE))
        own |= set(re.findall(r"^    ([a-z]\w*): ", code, re.MULTILINE)) | {
            name for name in vars(cls) if name[0] != "_"
        }
        if cls is assay.Run:
            own = {name for name in own if name != "metric"}
            assert "run.metric(" in rows["Run"]
        assert named[cls.__name__] == own


def texts_of_package() -> list[str]:
    """Every text in the source. A value that is formatted into a text is `…`."""
    texts = []
    for path in (ROOT / "src" / "assay").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = [part.value if isinstance(part, ast.Constant) else "…" for part in node.values]
                texts.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return texts


def test_the_messages_of_the_last_table_are_those_of_the_code() -> None:
    messages = re.findall(r"^\| `(.*?)` \|", section("Troubleshooting"), re.MULTILINE)
    assert len(messages) >= 9
    texts = texts_of_package()
    for message in messages:
        # The names of the parameters of a scorer are formatted into their message.
        pieces = re.split("…|answer, target, row, ctx, records", message)
        pattern = re.compile(".*".join(map(re.escape, pieces)), re.DOTALL)
        assert any(pattern.search(text) for text in texts), message
