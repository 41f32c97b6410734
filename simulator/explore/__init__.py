"""Many simulations: configurations ranked, schedules over sequence lengths."""
