"""What would make a launch faster, and by how much: causes by name, and simulations of the launch without them."""
