"""What people read on the screen: groups above their tasks, repeats, likelihoods, first prompts, lists."""

from __future__ import annotations

import asyncio
import re
import subprocess
from pathlib import Path
from typing import Any

from servers.echoing import EchoServer
from support.stored import GOLDEN, command, replaying, run_stored, typed


def lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What was printed, if it went well."""
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_tasks_of_a_group_stand_below_it(tmp_path: Path) -> None:
    """Indented, a group in a group further; every one once, the group's own number first."""
    shown = lines(run_stored("e_group", tmp_path))
    names = [re.split(r"  +(?=rx|strict|flex)", line)[0] for line in shown if "exact_match" in line]
    assert names == [
        "Golden group",
        "  g_sub1",
        "  g_sub2",
        "  g_group::g_inner",
        "  g_group::g_inner",
        "    g_sub3",
        "    g_fs_first_n",
        "    g_fs_first_n",
    ]


def test_repeats_are_told_for_powers_of_two(tmp_path: Path) -> None:
    """pass@k and maj@k below the table; the ends of the curves are numbers that the table has too."""
    shown = lines(run_stored("a_completions", tmp_path))
    at = shown.index("g_gsm_sc, score-first and maj@64 and maj@8: exact_match of 20 cases")
    passed, voted = shown[at + 1], shown[at + 2]
    for line, kind in ((passed, "pass"), (voted, "maj")):
        assert re.findall(r"@(\d+)", line) == ["1", "2", "4", "8", "16", "32", "64"]
        assert line.startswith(f"  {kind}@1 ")
    assert "pass@1 0.5273 @2 0.7781 " in passed
    assert voted.startswith("  maj@1 0.6000 "), "the first reply alone: score-first"
    assert "@8 0.8500" in voted, "the vote of eight: maj@8"
    assert voted.endswith("@64 1.0000"), "the vote of all: maj@64"


def test_show_has_every_reply_and_every_vote(tmp_path: Path) -> None:
    """All 64 replies of a case, and how often each answer was given, by every filter."""
    lines(run_stored("a_completions", tmp_path))
    shown = typed(["show", str(tmp_path), "@3"]).stdout
    assert re.findall(r"^reply (\d+) ", shown, re.MULTILINE) == [str(n) for n in range(64)]
    votes = re.findall(r"^  votes: (.*)$", shown, re.MULTILINE)
    counts = [sum(map(int, re.findall(r"× (\d+)", line))) for line in votes]
    assert counts == [64, 64, 8]
    assert votes[1].startswith("'-1' × 33, '[invalid]' × 9")


async def echoed(out: Path) -> dict[str, Any]:
    async with EchoServer() as server:
        words = [*command("d_mc", server.url, out), "--limit", "1", "--write_out"]
        return {"written": await asyncio.to_thread(typed, words), "asked": server.bodies("/v1/completions")}


def test_likelihoods_are_shown_with_what_was_measured(tmp_path: Path) -> None:
    """Each choice with its likelihood; the prompt they share stands there once, before and after the run."""
    found = asyncio.run(echoed(tmp_path))
    written = "\n".join(lines(found["written"]))
    first = written.split("g_mc: the first prompt\n")[1].split(": the first prompt")[0]
    assert first.count("Add 14 and 18 =") == 1
    assert re.findall("how likely is: (.*)", first) == ["' 32'", "' 35'", "' 42'", "' 30'", "' ünknown'"]
    shown = typed(["show", str(tmp_path), "@0"]).stdout
    assert shown.count("Add 14 and 18 =") == 1
    pairs = re.findall(r"how likely is\n  (.*)\nlogprob (\S+), (greedy|not greedy) ", shown)
    assert sorted(pairs) == [
        ("' 30'", "-11.0070", "greedy"),
        ("' 32'", "-10.3590", "greedy"),
        ("' 35'", "-10.6920", "not greedy"),
        ("' 42'", "-10.5110", "greedy"),
        ("' ünknown'", "-20.6160", "greedy"),
    ]
    whole = typed(["show", str(tmp_path), "@3"]).stdout
    assert "how likely is the whole text\n  'The quick brown fox jumps over the lazy dog.'\n" in whole
    assert "logprob -94.3890" in whole


def test_write_out_shows_what_is_sent_and_then_asks(tmp_path: Path) -> None:
    """The first prompt of each task with its examples, and its target; the run is what it is without it."""
    with replaying("c_fewshot") as server:
        shown = lines(typed([*command("c_fewshot", server.url, tmp_path), "--limit", "2", "--write_out"]))
    text = "\n".join(shown)
    heads = [line for line in shown if line.endswith(": the first prompt")]
    assert heads == [
        f"{name}: the first prompt" for name in ("g_fs_first_n", "g_fs_random", "g_fs_same_split", "g_fs_prefix")
    ]
    assert len(server.bodies) == 8
    prompt = server.bodies[0]["prompt"]
    assert "\n".join(f"  {line}" for line in prompt.split("\n")) in text
    assert "  target: " in text


def test_list_names_tasks_groups_and_tags() -> None:
    """With where they are; a tag of many tasks counts them."""
    shown = [line.split(maxsplit=2) for line in lines(typed(["task", "--list", "--include-path", "tasks"]))]
    assert ["task", "g_em", "tasks/b_em.yaml"] in shown
    assert ["group", "g_group", "tasks/e_group.yaml"] in shown
    assert ["tag", "g_subs", "g_sub1, g_sub2, g_sub3"] in shown
    (golden,) = [row[2] for row in shown if row[:2] == ["tag", "golden"]]
    assert golden.startswith("18 tasks: g_custom, ")
    assert len(golden) < 80
    tasks = {row[1] for row in shown if row[0] == "task"}
    assert len(tasks) == len(list((GOLDEN / "tasks").glob("*.yaml"))) - 1
