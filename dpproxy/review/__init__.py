"""What a policy exposes: verdicts of statements without data, doubts, odds of an attacker, explanations in words."""
