"""Work on other cores: pools of simulations, and processes that may die."""
