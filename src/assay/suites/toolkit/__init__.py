"""What several suites use."""
