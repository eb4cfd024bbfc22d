"""Tasks: accepting messages, running them in order, and answering requests about them."""
