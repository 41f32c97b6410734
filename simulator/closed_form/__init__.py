"""Least bytes and bounds by arithmetic alone; nothing here meets the engine."""
