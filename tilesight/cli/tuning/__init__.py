"""What `tilesight tune` takes and prints of layers of inference engines."""
