"""Steps of several GPUs: process groups without other processes."""
