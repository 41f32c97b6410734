"""What code would take an SM if something about it were otherwise; and where its warps spend their time as it is."""
