"""Front ends of other compilers than Triton: how each compiles without a GPU, and how what it launches is caught."""
