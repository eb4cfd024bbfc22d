"""One module for each provider's wire format, behind the port in `turn/models.py`; imported by those who declare it."""
