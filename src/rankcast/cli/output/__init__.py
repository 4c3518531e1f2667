"""What commands write: streams, tables and progress bars, notifications."""
