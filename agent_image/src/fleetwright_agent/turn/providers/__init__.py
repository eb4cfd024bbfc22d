"""One module for each provider's wire format; a module is imported only if a model of that provider is declared."""
