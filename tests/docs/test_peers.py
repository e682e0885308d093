"""The comparison with other programs: its pages come from its recorded results, and every program says how it runs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.peers import pages, process_tree, results
from benchmarks.peers.endpoint import PERMANENT, TRANSIENT, fault_of
from benchmarks.peers.figures import Figures
from benchmarks.peers.peer import VERSIONS, Peer, Work
from benchmarks.peers.programs import PEERS
from benchmarks.peers.results import Fault, Kill, Results, Speed
from benchmarks.peers.tables import results_section


def test_pages_and_pictures_are_what_the_recorded_results_say() -> None:
    """No figure of a README or of RESULTS.md is typed by hand."""
    found = results.read()
    for page, text in pages.pages(found).items():
        assert pages.section_of(page) == text, page.name
    for name, svg in pages.charts(found).items():
        assert (pages.PICTURES / name).read_text() == svg, name


def test_every_page_has_each_mark_of_its_section_once() -> None:
    for page in pages.pages(results.read()):
        text = page.read_text()
        assert (text.count(pages.BEGIN), text.count(pages.END)) == (1, 1), page.name


@pytest.mark.parametrize(
    "text",
    [
        f"before section {pages.END} after",
        f"before {pages.BEGIN} section after",
        f"before {pages.END} section {pages.BEGIN} after",
        f"before {pages.BEGIN} section {pages.END} {pages.BEGIN} section {pages.END} after",
    ],
)
def test_a_page_without_its_marks_is_not_written(tmp_path: Path, text: str) -> None:
    """It would get a second section, or lose what follows its section."""
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(ValueError, match=r"page\.md: expected one line <!-- peers"):
        pages.replace_section(page, "new")


def test_only_the_section_of_a_page_is_replaced(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before {pages.BEGIN} old {pages.END} after")
    assert pages.replace_section(page, "new") == f"before {pages.BEGIN}new{pages.END} after"


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_every_program_names_its_version_its_command_and_how_telemetry_is_off(peer: Peer, tmp_path: Path) -> None:
    """The command asks the endpoint it is given, and the settings of its telemetry are in its environment."""
    assert peer.version or peer.name == "bare"
    assert peer.how
    assert peer.continues
    work = Work(tmp_path / "q.jsonl", 3, 8, "http://127.0.0.1:9/v1", tmp_path)
    work.data.write_text('{"id": 1, "question": "Q1: which?", "answer": "932"}\n')
    command = peer.start(work)
    written = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert any("127.0.0.1:9" in text for text in [*command.arguments, *command.variables.values(), *written])
    for name, value in re.findall(r"`(\w+)=(\w+)`", peer.telemetry):
        assert command.variables[name] == value
    assert peer.telemetry == "none" or "`" in peer.telemetry


def test_every_pinned_version_is_exact_and_has_no_address() -> None:
    """A registry finds a package by its name and exact version."""
    for packages in VERSIONS.values():
        for package in [package for each in packages.values() for package in each]:
            assert re.fullmatch(r"[\w.-]+(\[\w+\])?(==|@)\d+(\.\d+)+", package), package


def test_faults_hit_what_the_page_says() -> None:
    """9 of 100 questions at the first attempt only; 1 of 100 at every attempt."""
    first = [fault_of(number, 0, TRANSIENT) for number in range(100)]
    assert [first.count(fault) for fault in ("429", "500", "closed")] == [5, 2, 2]
    assert not any(fault_of(number, 1, TRANSIENT) for number in range(100))
    assert [number for number in range(200) if fault_of(number, 7, PERMANENT)] == [51, 151]


def test_the_tables_tell_what_was_not_finished_and_where_others_are_better() -> None:
    """What is missing has words instead of a number, a killed run has lower bounds, and a better figure is named."""
    text = results_section(small_results())
    assert "| lm-eval | > 1.0 | > 2.0 | – | > 50 |" in text
    assert "| killed by its limit: 1,000 of 1,000 asked in 2 s |" in text
    assert "- log, 100 samples, 0 ms, 64 at once: lm-eval 0.7; assay 1.8 KB" in text
    assert "| lm-eval | 40 | cannot continue |" in text
    assert "| lm-eval | passing | 99 of 100 | 0 | 0.790 | 0 (0) | 3.0 | **nowhere** |" in text
    assert "| assay | passing | 100 of 100 | 0 | 0.800 | 0 (0) | 2.0 | no failure |" in text
    assert Figures(small_results()).large("lm-eval").end == "limit"


def test_a_measured_tree_includes_orphans_and_leaves_no_process(tmp_path: Path) -> None:
    """The command ends at once; its child, which computed and now sleeps, is counted and killed."""
    child = (
        "import os, time; sum(range(10**5))\n"
        "with open('pid.new', 'w') as written: written.write(str(os.getpid()))\n"
        "os.replace('pid.new', 'pid')\n"
        "time.sleep(60)"
    )
    parent = (
        "import pathlib, subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', {child!r}])\n"
        "while not pathlib.Path('pid').exists(): time.sleep(0.01)\n"
        "sys.exit(5)"
    )
    cores = ",".join(map(str, os.sched_getaffinity(0)))
    command = [
        sys.executable,
        process_tree.__file__,
        "report.json",
        "30",
        cores,
        sys.executable,
        "-c",
        parent,
    ]
    subprocess.run(command, cwd=tmp_path, check=True)
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["code"], report["reason"]) == (5, "ended")
    assert report["cpu"] > 0
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def small_results() -> Results:
    """Assay and lm-eval, with made-up figures."""

    def speed(peer: str, count: int, end: str, log: int) -> Speed:
        return Speed(
            peer=peer,
            count=count,
            latency=0.0,
            at_once=64,
            end=end,
            code=0,
            wall=2.0,
            cpu=1.0,
            memory=50.0,
            log=log,
            first=0.5,
            asked=count,
            samples=count,
            accuracy=0.8,
        )

    def fault(peer: str, samples: int, accuracy: float, wall: float) -> Fault:
        codes = {"code": 0, "usual_code": 0}
        found = {"samples": samples, "errors": 0, "faults": 9, "asked": 109}
        about = {"peer": peer, "kind": TRANSIENT, "count": 100, "end": "ended"}
        return Fault(**about, **codes, **found, accuracy=accuracy, wall=wall)  # type: ignore[arg-type]

    return Results(
        date="2026-01-02 03:04",
        machine="a machine",
        python="3.11",
        command="make bench-peers",
        network="loopback only",
        minutes=1.0,
        load=[0.1],
        versions={"assay": "1", "lm-eval": "2"},
        speeds=[
            speed("assay", 100, "ended", 1800),
            speed("lm-eval", 100, "ended", 700),
            speed("assay", 1000, "ended", 18_000),
            speed("lm-eval", 1000, "limit", 7000),
        ],
        kills=[
            Kill(peer="assay", count=100, at_once=64, end="ended", answered=40, again=0, code=0, samples=100),
            Kill(peer="lm-eval", count=100, at_once=64, end="cannot", answered=40),
        ],
        faults=[fault("assay", 100, 0.8, 2.0), fault("lm-eval", 99, 0.79, 3.0)],
    )
