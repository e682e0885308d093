"""A Ray cluster of two nodes in a process of its own, because a process that is copied must have no threads of Ray.

with RayNodes() as nodes:
    nodes.address      # for --address
    nodes.lose_one()   # as a power cut would; another node takes its place
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Self

from support.ray_cluster import LocalCluster

# Ray needs seconds for a node, on a busy machine many of them.
_END_SECONDS = 60.0
_STUCK_SECONDS = 300.0


class RayNodes:
    """The process with the cluster, for a `with` statement."""

    def __init__(self) -> None:
        self.address = ""
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
        command = [sys.executable, "-m", "chaos.ray_nodes"]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True)
        self._process = process
        self.address = self._read()
        if not self.address:
            self.__exit__()
            raise RuntimeError("the Ray cluster did not start; its own message is above")
        return self

    def __exit__(self, *_: object) -> None:
        process, self._process = self._process, None
        if process is not None:
            try:
                process.communicate(timeout=_END_SECONDS)  # closes its input, which ends the cluster
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise

    def lose_one(self) -> None:
        """End a node with all workers on it, and start another one."""
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # told below
            self._process.stdin.write("lose\n")
            self._process.stdin.flush()
        if self._read() != "lost":
            # No scenario after this one could be played. SystemExit is no failure of this scenario: it ends them all.
            raise SystemExit("the Ray cluster has ended or does not answer; its own message is above")

    def _read(self) -> str:
        """Return the next line of the process. Empty if it has ended, or says nothing for too long."""
        assert self._process is not None
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], _STUCK_SECONDS)
        return self._process.stdout.readline().strip() if ready else ""


def main() -> None:
    """Serve a cluster until the input ends."""
    with LocalCluster(nodes=2) as cluster:
        print(cluster.address, flush=True)  # noqa: T201 - whoever started us reads it
        for _ in sys.stdin:
            cluster.remove_node(cluster.nodes[0])
            cluster.add_node()
            print("lost", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
