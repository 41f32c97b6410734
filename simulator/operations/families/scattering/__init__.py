"""Values that are put, added or compared at places which indices, segments or masks name."""
