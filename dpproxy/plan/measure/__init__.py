"""One measurement: its columns, how contributions are bounded, its normal form, its noise scales. Knows no client."""
