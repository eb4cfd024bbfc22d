"""Questions and answers in the formats of other clients, converted from and to this project's own format."""
