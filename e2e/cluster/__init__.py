"""Clusters for tests and for `make up`: programs, images, and three providers behind one interface."""
