"""What every program of the comparison must say: how it is installed, configured, started, continued and read.

A program is one file of this folder with one subclass of `Peer`. The work is the same for all: a question of a JSONL
file is the only message of a chat request, the reply is compared with the answer (exact match), and the program keeps a
log with one entry a sample.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from benchmarks.measure import REPOSITORY

if TYPE_CHECKING:
    from playwright.sync_api import Page

ENVIRONMENTS = REPOSITORY / ".peers"
KEY = "bench-key"
VERSIONS: dict[str, dict[str, list[str]]] = tomllib.loads(
    Path(__file__).with_name("versions.toml").read_text(encoding="utf-8")
)


@dataclass(frozen=True)
class Work:
    """The questions, how many requests at once, the endpoint, and a folder for everything that is written."""

    data: Path
    count: int
    at_once: int
    url: str
    folder: Path
    killed: bool = False
    """Whether the run will be killed and continued: the program may be told to keep answers."""

    @property
    def output(self) -> Path:
        """The folder for logs and results. It does not exist before the start."""
        return self.folder / "output"


class Command(NamedTuple):
    """A command line with the variables that it adds to `Peer.environment`."""

    arguments: list[str]
    variables: dict[str, str]


class Outcome(NamedTuple):
    """What the program's own files say after a run."""

    samples: int
    """Samples with a score."""
    errors: int
    """Samples that the files call failed, or that their counts leave out openly."""
    accuracy: float | None
    """The accuracy as the program reports it; None if it reports none."""


class Viewer(NamedTuple):
    """The command of a viewer's server, and the address of its first page."""

    command: Command
    address: str


class Peer(ABC):
    """One program."""

    name: ClassVar[str]
    title: ClassVar[str]
    """The name in tables."""
    how: ClassVar[str]
    """One sentence for the tables: the command, and what had to be written by hand."""
    telemetry: ClassVar[str]
    """The documented settings that switch its telemetry off; "none" if it has no telemetry."""
    continues: ClassVar[str]
    """How a killed run is continued."""
    no_viewer: ClassVar[str] = ""
    """Why there is nothing to measure in a browser; "" if there is a viewer."""

    @property
    def folder(self) -> Path:
        """The environment of the program."""
        return ENVIRONMENTS / self.name

    @property
    def version(self) -> str:
        """The version of the program, from versions.toml."""
        return self.packages()[0].replace("@", "==").rpartition("==")[2]

    def packages(self) -> list[str]:
        """The pinned packages, the program itself first; none if it is of this repository."""
        return [package for packages in VERSIONS.get(self.name, {}).values() for package in packages]

    def install(self) -> None:
        """Make the environment: a venv with the pinned packages."""
        python = self.folder / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", str(self.folder)], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *self.packages()], check=True)

    def environment(self, work: Work) -> dict[str, str]:
        """The variables of every command. The home folder is new, so no setting of yours has an effect."""
        home = work.folder / "home"
        home.mkdir(parents=True, exist_ok=True)
        kept = {name: os.environ[name] for name in ("LANG", "LC_ALL") if name in os.environ}
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        return kept | {"PATH": path, "HOME": str(home), "TMPDIR": str(home), "OPENAI_API_KEY": KEY}

    @abstractmethod
    def start(self, work: Work) -> Command:
        """Write what the program needs into the folder of the work, and return the command of a new run."""

    def proceed(self, work: Work) -> list[Command]:
        """Return the commands that continue a killed run; the same command, unless the program has another."""
        return [self.start(work)]

    @abstractmethod
    def outcome(self, work: Work) -> Outcome:
        """Read the result out of the files of a run that ended."""

    def log(self, work: Work) -> list[Path]:
        """The files and folders whose size is the size of the log."""
        return [work.output]

    def viewer(self, work: Work, port: int) -> Viewer:
        """The viewer of a finished run."""
        raise NotImplementedError(f"{self.name}: {self.no_viewer}")

    def open_failed(self, page: Page, wrong: int) -> str:
        """From the first page, go as a person would to the list of the wrong answers; return the way in words."""
        raise NotImplementedError(f"{self.name}: {self.no_viewer}")

    def python(self, *arguments: object, **variables: str) -> Command:
        """A command of the environment's Python."""
        return Command([str(self.folder / "bin" / "python"), *map(str, arguments)], variables)
