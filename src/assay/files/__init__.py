"""Files that people and other programs wrote: read with places and bounds, checked, redacted, written whole."""
