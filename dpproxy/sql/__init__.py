"""SQL as text and trees: parsing, statement kinds, types. Pure; knows no policy semantics beyond table names."""
