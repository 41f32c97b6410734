"""Steps of several GPUs: process groups that talk to nobody."""
