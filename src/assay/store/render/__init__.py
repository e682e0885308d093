"""Writes reports, comparisons and gates as documents: Markdown, LaTeX, HTML and JUnit XML, one file a format."""
