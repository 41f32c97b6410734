"""What is validated: points, and the sets of them."""
