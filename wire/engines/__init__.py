"""wire/engines."""
