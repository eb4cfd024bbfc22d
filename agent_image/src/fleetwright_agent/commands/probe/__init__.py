"""Short looks at one thing, each a command that ends: a report on standard output, or an exit code and a reason."""
