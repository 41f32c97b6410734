"""Schedules of attention's backward pass: outlines, whose loop nests are found in machine code."""
