"""Code that several test modules share. Test modules import from here and from conftest, never from each other.

A test module that no other one imports can be renamed, moved or removed alone.
"""
