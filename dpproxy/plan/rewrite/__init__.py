"""Rules that write a refused statement another way, before names are bound. `rules` has their order."""
