"""Models whose layers of attention can be asked about by name, or by the config.json of a checkpoint."""
