"""What is predicted of kernels of anyone: tables, pages, and where the cycles go."""
