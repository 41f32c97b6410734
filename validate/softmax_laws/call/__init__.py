"""How an implementation is called, by its kind and by its kind of arrays."""
