"""Compares the verdicts of two versions of the offline judge: `python -m benchmarks.verdicts COMMIT`.

A change for speed must not change a verdict. The judge of COMMIT and the judge of this folder get the same questions:
the constructed set, questions made of random pieces of text, and, where they are named, real answers (`--votes`) and
real conversations (`--locomo`). Labels, measures and reasons must be equal to the last bit. The CPU seconds of both
are printed by kind of question.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from assay.suites.calibration.labels import read_labels
from assay.suites.calibration.suite import CONSTRUCTED
from benchmarks.measure import REPOSITORY

Question = dict[str, Any]
# Pieces of which texts are made: what the rules look for, in English and Chinese, and what could confuse them.
_PIECES = (
    *(
        "Oslo",
        "Rome",
        "the town",
        "coconut milk",
        "almond milk",
        "her mother",
        "mom",
        "motivation",
        "motivating",
    ),
    *(
        "7 May 2023",
        "May 7th",
        "the week before 9 June 2023",
        "2023-05-07",
        "late May",
        "in the 1990s",
        "summer 2022",
    ),
    *(
        "two days after",
        "Christmas Eve",
        "Feburary 3",
        "5 Sept.",
        "3-5 March",
        "between May and June 2021",
        "12/24/2020",
    ),
    *(
        "three",
        "twenty-one",
        "a hundred",
        "10k",
        "2 weeks",
        "14 days",
        "third",
        "a few",
        "twice",
        "3.5 %",
        "$1,200",
    ),
    *(
        "yes",
        "No,",
        "probably not",
        "is not mentioned",
        "unknown",
        "I do not know",
        "something",
        "not",
        "never",
        "stopped",
    ),
    *(
        "or",
        "maybe",
        "and",
        ",",
        ";",
        ".",
        "\n",
        ": ",
        " - ",
        "|",
        "[2023-05-07 10:00]",
        "(Monday, 9 am)",
        "user: ",
    ),
    *(
        "can't",
        "it's",
        "U.S.A.",
        "café",
        "naïve",
        "Ångström",
        "ſpring",
        "İstanbul",
        "ΑΣ",
        "7th",
        "x5",
        "bread/butter",
    ),
    *(
        "2023年5月7日",
        "她搬到了北京",
        "三十",
        "两个星期",
        "没有提到",
        "不是",
        "或者",
        "春天",
        "一共",
        "５月",
        "e\u0301",
        "\u3000",
    ),
    *(
        "thing0x1x2",
        "Ann",
        "Bob bought",
        "What",
        "When did",
        "coins",
        "book shelf",
        "bookshelf",
        "_",
        "''",
        "“quoted”",
    ),
)


def main() -> int:
    arguments = _arguments()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        questions = folder / "questions.jsonl"
        with questions.open("w", encoding="utf-8") as file:
            for question in _questions(arguments):
                file.write(json.dumps(question, ensure_ascii=False) + "\n")
        archive = ["git", "-C", str(REPOSITORY), "archive", arguments.commit, "src/assay"]
        with subprocess.Popen(archive, stdout=subprocess.PIPE) as git:
            subprocess.run(["tar", "-x", "-C", scratch], stdin=git.stdout, check=True)
        before, before_seconds = _judged(folder / "src", questions)
        after, after_seconds = _judged(REPOSITORY / "src", questions)
        different = 0
        lines = questions.read_text(encoding="utf-8").split("\n")
        for question, one, other in zip(lines, before, after, strict=False):
            if one != other:
                different += 1
                if different <= 5:
                    print(f"{question}\n  before: {one}\n  after:  {other}")
    for kind, (count, seconds) in before_seconds.items():
        ratio = after_seconds[kind][1] / seconds
        print(
            f"{kind:12} {count:>7,} questions   {seconds:7.2f} s -> {after_seconds[kind][1]:6.2f} s CPU   {ratio:.2f}"
        )
    print(f"{different:,} of {len(before):,} verdicts differ")
    return 1 if different else 0


def _judged(source: Path, questions: Path) -> tuple[list[str], dict[str, tuple[int, float]]]:
    """Return the verdicts of the judge in `source`, and by kind the number of questions and the CPU seconds."""
    command = [sys.executable, "-m", "benchmarks.verdicts", "--judge", str(questions)]
    env = {"PYTHONPATH": f"{source}:{REPOSITORY}", "PYTHONUTF8": "1"}
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True)
    *verdicts, seconds = done.stdout.decode().split("\n")
    return verdicts, json.loads(seconds)


def _judge_all(path: Path) -> None:
    """Print the verdict on every question, and at last the CPU seconds. Runs with the code of either version."""
    from assay.scoring import offline, questions

    kinds = {kind.kind: kind for kind in questions.JudgeQuestion.__args__}  # type: ignore[attr-defined]
    used: dict[str, list[float]] = defaultdict(lambda: [0, 0.0])
    for line in path.read_text(encoding="utf-8").split("\n")[:-1]:
        fields = json.loads(line)
        kind = fields.pop("kind")
        question = msgspec.convert(fields, kinds[kind])
        began = time.process_time()
        verdict = offline.verdict(question)
        used[kind][1] += time.process_time() - began
        used[kind][0] += 1
        print(msgspec.json.encode(verdict).decode())
    print(json.dumps(used), end="")


def _questions(arguments: argparse.Namespace) -> Iterator[Question]:
    labelled = read_labels(CONSTRUCTED, {}).rows
    rows = [{"kind": row.kind} | msgspec.to_builtins(row.question) for row in labelled]
    yield from rows
    draw = random.Random(19)
    texts = sorted({text for row in rows for text in _texts(row)})
    for _ in range(arguments.count):
        yield _drawn(draw, texts)
    if arguments.votes:
        data = json.loads(Path(arguments.votes).read_text(encoding="utf-8"))
        answers = [row for rows in data["detailed_results"].values() for row in rows]
        others = draw.sample(answers, len(answers))
        for row, other in zip(answers, others, strict=True):
            for response in (row["generated_answer"], other["generated_answer"], str(other["golden_answer"])):
                yield _answer(row["question"], str(row["golden_answer"]), response)
    if arguments.locomo:
        yield from _conversations(json.loads(Path(arguments.locomo).read_text(encoding="utf-8")), draw)


def _texts(row: Question) -> Iterator[str]:
    for value in row.values():
        yield from [value] if isinstance(value, str) else filter(lambda each: isinstance(each, str), value)


def _drawn(draw: random.Random, texts: list[str]) -> Question:
    """A question whose texts are pieces, or texts of the constructed set with pieces in between."""

    def text() -> str:
        pieces = draw.choices(_PIECES, k=draw.randint(0, 12))
        if draw.random() < 0.4:
            words = draw.choice(texts).split(" ")
            pieces = words[: len(words) // 2] + pieces[:3] + words[len(words) // 2 :]
        return draw.choice(("", " ", " ", " ", "  ")).join(pieces)

    def several(most: int) -> list[str]:
        return [text() for _ in range(draw.randint(0, most))]

    kind = draw.choice(("answer", "answer", "answer", "evidence", "recall", "correctness", "update", "interference"))
    points = several(draw.choice((3, 3, 30)))
    if kind == "answer":
        return _answer(text(), text(), text())
    if kind == "evidence":
        return {"kind": kind, "evidence": points, "texts": several(8)}
    if kind == "recall":
        return {"kind": kind, "points": points, "updates": [False] * len(points), "texts": several(8)}
    if kind == "correctness":
        return {"kind": kind, "points": points, "earlier_points": several(3), "texts": several(8)}
    if kind == "update":
        return {"kind": kind, "new": text(), "old": several(2), "texts": several(8)}
    return {"kind": kind, "content": text(), "texts": several(8)}


def _answer(question: str, reference: str, response: str) -> Question:
    return {"kind": "answer", "question": question, "reference": reference, "response": response}


def _conversations(samples: list[Question], draw: random.Random) -> Iterator[Question]:
    """Questions about the observed facts of real conversations: in few messages, and in all."""
    for sample in samples:
        sessions = [turns for name, turns in sample["conversation"].items() if re.fullmatch(r"session_\d+", name)]
        messages = [f"{turn['speaker']}: {turn['text']}" for turns in sessions for turn in turns]
        facts = [fact[0] for observed in sample["observation"].values() for each in observed.values() for fact in each]
        for start in range(0, len(facts), 5):
            points, texts = facts[start : start + 5], draw.sample(messages, 12)
            yield {"kind": "recall", "points": points, "updates": [False] * len(points), "texts": texts}
            yield {
                "kind": "correctness",
                "points": points,
                "earlier_points": draw.sample(facts, 15),
                "texts": texts,
            }
            yield {
                "kind": "correctness",
                "points": texts,
                "earlier_points": messages[:20],
                "texts": draw.sample(messages, 9),
            }
            yield {"kind": "update", "new": points[0], "old": [draw.choice(facts)], "texts": texts}
            yield {"kind": "evidence", "evidence": points, "texts": messages}
            yield {"kind": "interference", "content": points[0], "texts": messages}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.verdicts", description=__doc__)
    parser.add_argument("commit", help="the version to compare with")
    parser.add_argument("--count", type=int, default=10_000, help="number of questions made of random pieces")
    parser.add_argument("--votes", metavar="FILE", help="answers to LoCoMo with votes, as of `make judges`")
    parser.add_argument("--locomo", metavar="FILE", help="locomo10.json")
    return parser.parse_args()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--judge"]:
        _judge_all(Path(sys.argv[2]))
    else:
        sys.exit(main())
