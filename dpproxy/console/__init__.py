"""What operators look at beside the log."""
