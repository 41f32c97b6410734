"""Columns, words and tables that results and reports share."""
