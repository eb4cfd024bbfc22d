"""One module for each wire format of a provider, imported only where the configuration declares that provider."""
