"""Push notifications: the registration of receivers, the outbox, and delivery."""
