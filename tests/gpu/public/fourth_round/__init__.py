"""Cases of a fourth round, drawn up with those of the third and not looked at either."""
