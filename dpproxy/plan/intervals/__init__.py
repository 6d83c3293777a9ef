"""How far off released values may be: intervals of them and standard errors, as the outer query computes them."""
