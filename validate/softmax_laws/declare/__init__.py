"""What an implementation promises, and the inputs that it is promised for."""
