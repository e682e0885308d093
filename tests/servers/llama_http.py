"""llama.cpp's HTTP server, by xllamacpp: a real server for `--serve`, and a stand-in for the program `llama-server`.

python llama_http.py --model FILE.gguf --host 127.0.0.1 --port 8080 [--ctx-size N] [--parallel N]

The key is that of the variable LLAMA_API_KEY, as for llama.cpp's own program. In the folder LLAMA_HTTP_PIDS it leaves a
file with the number of its process as its name.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
from pathlib import Path

os.environ["OMP_WAIT_POLICY"] = "PASSIVE"  # threads that spin would make it many times slower on shared cores

import xllamacpp


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--ctx-size", type=int, default=2048)
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("-ub", "--ubatch-size", type=int, default=63)
    options = parser.parse_args()
    if pids := os.environ.get("LLAMA_HTTP_PIDS"):
        Path(pids, str(os.getpid())).touch()
    params = xllamacpp.CommonParams()
    params.model.path = options.model
    params.hostnames = [options.host]
    params.port = options.port
    params.n_ctx = options.ctx_size
    params.n_parallel = options.parallel
    params.n_ubatch = options.ubatch_size
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 2
    params.cache_ram_mib = 0
    params.n_threads_http = 4
    params.ui = False
    params.offline = True
    if key := os.environ.get("LLAMA_API_KEY"):
        params.api_keys = [key]
    try:
        server = xllamacpp.Server(params)
    except RuntimeError:
        # The binding does not say why. llama.cpp's own server names a port that another program has.
        with socket.socket() as probe:
            try:
                probe.bind((options.host, options.port))
            except OSError:
                print(f"couldn't bind HTTP server socket, port: {options.port}", file=sys.stderr)  # noqa: T201
        raise
    print(f"listening on {server.listening_address}", flush=True)  # noqa: T201
    # The binding cannot end a server in order; the process has nothing to save.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
