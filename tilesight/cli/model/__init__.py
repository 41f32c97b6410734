"""What commands share that ask about a model: its options, and how they fill a problem."""
