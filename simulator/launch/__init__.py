"""What runs on a GPU, as a value: launches, their tile programs, and what can be read off them."""
