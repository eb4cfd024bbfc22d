"""Push notifications: who wants to hear of which task, what has to be delivered, and delivering it."""
