"""Beside points: peers, the checkpoint of a lesson, and profiles of launches."""
