"""Binding: a statement's tree to rows whose privacy type is known, computed bottom-up and once, or to a refusal."""
