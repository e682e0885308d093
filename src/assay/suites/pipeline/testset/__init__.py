"""The testset format: reads records from files, builds test cases from records, and groups dependent cases."""
