"""Pure functions on the text of messages: sentences, cuts, and orders that contradict a rule."""
