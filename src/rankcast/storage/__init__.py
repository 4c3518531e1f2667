"""Files: subscribers as YAML or JSON, events as JSON lines, CSV or Parquet; read strictly, written atomically.

Bad input never stops good input: what can be told apart from the rest (a subscriber, a line, a row) is set aside as a
`Problem` with its file and line, and reading goes on. A file that cannot be used at all raises `InvalidFileError`.

Where to look: `subscriber_files` and `event_files` (what callers use), `checking` (everything wrong with one file);
below them `documents` with `tokens` (YAML and JSON with line numbers), `structure` (the shipped JSON Schema at work),
`subscriber_documents` (plain data to subscribers and back), `event_lines`, `event_csv`, `event_parquet`, `event_rows`
(one format each, and what tables share), `byte_lines`, `texts`, `durations` and `writing`.
"""
