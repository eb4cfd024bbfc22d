"""The rings of tests: what each contains, how it runs, and one summary at the end."""
