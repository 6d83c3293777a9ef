"""What one process tells its operator of itself: events for the log, counts for the metrics."""
