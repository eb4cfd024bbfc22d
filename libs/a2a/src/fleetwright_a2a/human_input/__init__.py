"""The formats in which other clients exchange questions and answers of people."""
