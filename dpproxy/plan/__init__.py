"""The privacy planner: a statement's tree and a policy in, a `Plan` or a `Refusal` out."""
