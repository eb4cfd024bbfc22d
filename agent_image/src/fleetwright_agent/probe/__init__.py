"""Short looks at one thing, each a command that ends: a report on standard output, or exit code 2 and a reason."""
