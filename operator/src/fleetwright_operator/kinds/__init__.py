"""The kinds of objects that the operator reads and writes, and what its cache keeps of each."""
