"""Loop vectorisation."""
