"""What is known of expressions and rows before data are touched: bounds, grids, repetition, declared keys."""
