"""The query above the measurements: released arrays, intervals of error, values that the facade computes first."""
