"""What this machine has for `validate` and `calibrate`, and what helps where it lacks something."""
