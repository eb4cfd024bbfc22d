"""The addresses and rules that network policies consist of. Pure."""
