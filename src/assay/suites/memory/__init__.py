"""What the two suites of memories share: opening, timing and asking a memory. `test` and `eval` are the suites."""
