"""One module per page: its handler, and the struct that it hands to its template."""
