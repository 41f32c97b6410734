"""Machine code followed thread by thread: values, branches, barriers, addresses."""
