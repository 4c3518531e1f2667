"""Notifications, lists, late events and rejected rows as folders of Parquet or JSON lines, each batch exactly once.

    OUT/notifications/batch=0/part-....parquet
    OUT/lists/batch=0/...                           the lists, read on demand, that have changed in it
    OUT/late/batch=0/...
    OUT/rejected/batch=0/...
    OUT/_rankcast.json                              whose output this is

`spark.read.parquet("OUT/notifications")` reads all batches as one table. A batch is written beside its place and takes
it by a rename: where a rename is atomic, a table never shows half a batch. A batch that is written again, after a
crash, replaces what an earlier attempt left, so that no row is there twice and no file is an orphan. An output that is
empty has no folder, except in the first batch, whose files tell its columns.
"""

from __future__ import annotations

import json

from pyspark.sql import SparkSession

from rankcast.model.errors import InvalidFileError, InvalidValueError
from rankcast.spark.filesystems import FileSystem
from rankcast.spark.sinks.outputs import Batch, Output
from rankcast.storage.text_files import invalid_file

FILE_FORMATS = ("parquet", "json")
MARKER = "_rankcast.json"
FINISHED = "_rankcast.finished"
_VERSION = 1
_WRITING = "_writing-"


class FileSink:
    """Folders of files below one folder. Only one run at a time may write to it."""

    def __init__(self, spark: SparkSession, folder: str, *, format: str = "parquet") -> None:  # noqa: A002
        if format not in FILE_FORMATS:
            raise InvalidValueError(f"the output format {format!r} is unknown; expected {' or '.join(FILE_FORMATS)}")
        self.folder = folder
        self.format = format
        self._files = FileSystem(spark, folder)

    def open(self, run: str) -> None:
        """Take the folder for a run; raise InvalidFileError when it belongs to another one or holds other things."""
        files = self._files
        if files.exists() and not files.is_folder():
            raise self._refused("is a file; expected a folder")
        if not files.exists(MARKER):
            strangers = [name for name in files.names() if not name.startswith((".", "_"))]
            if strangers:
                raise self._refused(f"holds {strangers[0]!r}, which is no output of rankcast; choose another folder")
            files.make_folder()
            files.create_text(MARKER, json.dumps({"version": _VERSION, "run": run, "format": self.format}) + "\n")
        found = files.read_json(MARKER)
        if found.get("version") != _VERSION:
            raise self._refused(f"has a {MARKER} that this version cannot read")
        if found.get("run") != run:
            raise self._refused("holds the output of another run; choose another folder, or resume with its checkpoint")
        if found.get("format") != self.format:
            raise self._refused(f"holds {found.get('format')} files; this run writes {self.format}")

    def _refused(self, why: str) -> InvalidFileError:
        return invalid_file(self.folder, None, why)

    def write(self, batch: Batch) -> None:
        """Write the outputs of a batch, the notifications last: who sees them can see the rest."""
        for output in reversed(Output):
            target = f"{output.table}/batch={batch.number}"
            if batch.size(output) == 0 and batch.number > 0:
                self._files.remove(target)  # what an attempt before this one may have left
                continue
            made = f"{output.table}/{_WRITING}{batch.number}"
            batch.tables[output].write.format(self.format).mode("overwrite").save(self._files.path(made))
            self._files.replace_folder(made, target)

    def finish(self) -> None:
        """Mark the output as complete; a run that is finished again has marked it."""
        if not self._files.exists(FINISHED):
            self._files.create_text(FINISHED, "")
