"""What a simulation says: figures per launch and in total, what binds them, and remarks."""
