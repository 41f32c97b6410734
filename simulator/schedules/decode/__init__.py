"""Schedules over a cache of keys and values: outlines, whose loop nests are found in machine code."""
