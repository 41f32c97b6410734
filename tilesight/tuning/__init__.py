"""Choose a configuration without running it: predictions of many, the best of them, in the forms that users need."""
