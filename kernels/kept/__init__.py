"""Recorded steps that are kept on disk, and taken only while all that they were made of is as it was."""
