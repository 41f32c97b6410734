"""CTAs that are alike, so that threads of a few stand for those of all: found for some accesses at a time."""
