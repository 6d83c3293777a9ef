"""What each operation is: the catalogue that binding, properties, measurements and engines read."""
