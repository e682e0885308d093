"""All programs of the comparison, in the order of the tables."""

from __future__ import annotations

from benchmarks.peers.assay import Assay
from benchmarks.peers.bare import Bare
from benchmarks.peers.deepeval import Deepeval
from benchmarks.peers.evalscope import Evalscope
from benchmarks.peers.inspect_ai import InspectAi
from benchmarks.peers.lm_eval import LmEval
from benchmarks.peers.peer import Peer
from benchmarks.peers.promptfoo import Promptfoo

PEERS: tuple[Peer, ...] = (Assay(), LmEval(), InspectAi(), Promptfoo(), Evalscope(), Deepeval(), Bare())
