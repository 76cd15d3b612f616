"""What operators see: logs, metrics and the status pages."""
