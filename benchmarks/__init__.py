"""Speed and memory, proved side by side: `python -m benchmarks`."""
