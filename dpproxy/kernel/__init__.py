"""What one unit can change, derived a second time: from the tree that is rendered to SQL and from the policy, by own rules."""
