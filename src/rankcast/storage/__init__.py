"""Files: subscribers as YAML or JSON, events as JSON lines, CSV or Parquet; read strictly, written atomically.

Bad input never stops good input: what can be told apart from the rest (a subscriber, a line, a row) is set aside as a
`Problem` with its file and line, and reading goes on. A file that cannot be used at all raises `InvalidFileError`.

Where to look: `subscribers.files` and `events.files` (what callers use), `check_file` (everything wrong with one file);
below them `documents` (YAML and JSON with line numbers), `document_schema` (whether they have their shape),
`subscribers.settings` (how policies and the like are written), `events.json_lines`, `events.csv`, `events.arrow` and
`events.rows` (one format each, and what tables share), `text_files`, `durations` and `writing`. Beside them are
`placement_files`, `index_files` and `hub_log`.
"""
