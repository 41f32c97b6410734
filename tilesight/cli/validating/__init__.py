"""What `tilesight validate` does beside points: functions of the user, public tables."""
