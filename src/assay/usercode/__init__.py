"""The user's code: imported from files, called with limits, told apart from assay's, and identified."""
