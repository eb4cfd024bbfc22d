"""`make walk`: every property of every kind is set, changed, unset and put back, and no path leaves a trace."""
