"""What authors of policies work with: trying a policy, testing it, comparing two, before anybody is served by it."""
