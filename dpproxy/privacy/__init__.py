"""Numbers of privacy: what a measurement is, what it costs, how much noise it needs. Knows no SQL tree, engine or plan."""
