"""What several test modules share. Test modules import from here and from conftest, never from each other."""
