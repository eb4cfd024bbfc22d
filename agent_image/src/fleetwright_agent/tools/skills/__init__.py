"""Tools that load mounted skills."""
