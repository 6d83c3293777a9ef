"""What a plan says to people: EXPLAIN and typical errors."""
