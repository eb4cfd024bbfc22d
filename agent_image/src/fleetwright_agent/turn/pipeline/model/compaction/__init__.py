"""Compaction before model calls: the link decides whether it is due, and the steps carry it out."""
