"""The compiled event loop: CTAs on SMs, L1, L2, links and device memory."""
