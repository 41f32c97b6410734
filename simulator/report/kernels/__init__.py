"""What is predicted of kernels of anyone: tables and pages."""
