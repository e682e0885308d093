"""How a case with a memory runs: `conversation` for memory test, `sessions` for memory eval."""
