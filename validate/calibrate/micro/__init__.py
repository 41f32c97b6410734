"""The microbenchmarks themselves: CUDA C++ and what runs it on a GPU."""
