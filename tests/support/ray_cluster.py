"""A Ray cluster on this machine whose nodes are processes with logical resources. Nodes can be added and removed.

with LocalCluster(nodes=2) as cluster:
assay.task("task.yaml", model="…", executor="ray")   # finds the cluster that this process is connected to
node = cluster.add_node()
cluster.remove_node(node)
"""

from __future__ import annotations

import logging
import os
import time
from types import TracebackType
from typing import Any, Self

# Before Ray is imported: it sends nothing anywhere, and prints nothing.
os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "1", "RAY_DEDUP_LOGS_SKIP_REGEX": "."}
# Ray gives its workers the least of the processor. Beside other tests they would hardly run at all.
os.environ |= {"RAY_worker_niceness": "0"}
# One CPU of each is for a worker. They are logical: the machine may have fewer.
NODE_CPUS = 2
_STUCK_SECONDS = 300.0
# Ray gives up a node that is not ready after 30 s, which a busy machine may need.
_MAX_STARTS = 5


class LocalCluster:
    """Nodes of Ray in this machine. The first one is the head, which no worker is placed on."""

    def __init__(self, nodes: int) -> None:
        self._count = nodes
        self.nodes: list[Any] = []

    def __enter__(self) -> Self:
        import ray
        from ray.cluster_utils import Cluster

        self._cluster = Cluster()
        self._start_node(num_cpus=0, include_dashboard=False)
        for _ in range(self._count):
            self.add_node()
        ray.init(address=self._cluster.address, log_to_driver=False, logging_level=logging.ERROR)
        self._cluster.wait_for_nodes()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        import ray

        ray.shutdown()
        self._cluster.shutdown()

    @property
    def address(self) -> str:
        """The address for --address."""
        return str(self._cluster.address)

    def add_node(self) -> Any:
        """Start a node."""
        node = self._start_node(num_cpus=NODE_CPUS)
        self.nodes.append(node)
        return node

    def _start_node(self, **settings: Any) -> Any:
        """Start a node, again if the machine was too busy for Ray's own time limit."""
        for start in range(1, _MAX_STARTS + 1):
            try:
                return self._cluster.add_node(**settings)
            except Exception as error:
                # Ray has no class of its own for this error.
                if "timed out during startup" not in str(error) or start == _MAX_STARTS:
                    raise
        raise AssertionError

    def settle(self) -> None:
        """Wait until Ray knows of every node that was added, and of every one that was removed."""
        import ray

        deadline = time.monotonic() + _STUCK_SECONDS
        # The head is a node too.
        while sum(1 for node in ray.nodes() if node["Alive"]) != len(self.nodes) + 1:
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def remove_node(self, node: Any) -> None:
        """End a node and all workers on it, as a power cut would."""
        self.nodes.remove(node)
        self._cluster.remove_node(node, allow_graceful=False)
