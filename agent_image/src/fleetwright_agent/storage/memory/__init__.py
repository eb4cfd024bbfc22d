"""Storage that ends with the process, for tests and for programs that embed the runtime."""
