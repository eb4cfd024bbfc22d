"""Conversations: sending and answering, streams, and the local index of conversations."""
