"""Event files: JSON lines, CSV and Parquet, read strictly, with bad lines set aside."""
