"""Files and folders wherever Spark can reach them: a local disk, HDFS, an object store.

One thin layer over Hadoop's FileSystem, which Spark has on its class path, so that outputs, checkpoints and markers
follow the same rules on every one of them. `replace_folder` is the one operation that must not be half done: readers
find the old folder, the new one or, for the moment between two renames, none; never a mixture. What a file system
refuses is an InvalidFileError with the path and the reason.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # py4j ships no types
from pyspark.sql import SparkSession

from rankcast.model.errors import InvalidFileError
from rankcast.storage.text_files import invalid_file

ASIDE = "_replaced-"
"""Prefix of a folder that is being replaced. Spark reads nothing whose name starts with an underscore."""


def resolved(path: str) -> str:
    """Return a path as this process sees it: the JVM may have been started in another folder.

    >>> resolved("hdfs://host/flats"), resolved("/data/flats")
    ('hdfs://host/flats', '/data/flats')
    """
    return path if urlsplit(path).scheme or path.startswith("/") else str(Path.cwd() / path)


class FileSystem:
    """The file system of one folder; every path given is relative to it."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        jvm: Any = spark.sparkContext._jvm
        self.root = root
        self._jvm = jvm
        self._path = jvm.org.apache.hadoop.fs.Path(resolved(root))
        self._files = self._path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())

    def path(self, relative: str = "") -> str:
        """Return the full name of a path, for a reader or a writer."""
        return str(self._at(relative).toString())

    def _at(self, relative: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._path, relative) if relative else self._path

    def _do(self, relative: str, operation: Callable[..., Any], *arguments: Any) -> Any:
        """Call the file system; what it refuses becomes an error that names the path."""
        try:
            return operation(*arguments)
        except Py4JJavaError as error:
            raise self._failed(relative, str(error.java_exception.getMessage()).partition("\n")[0]) from None

    def exists(self, relative: str = "") -> bool:
        """Whether there is a file or folder."""
        return bool(self._do(relative, self._files.exists, self._at(relative)))

    def is_folder(self, relative: str = "") -> bool:
        """Whether there is a folder."""
        return self.exists(relative) and bool(self._status(relative).isDirectory())

    def _status(self, relative: str) -> Any:
        return self._do(relative, self._files.getFileStatus, self._at(relative))

    def names(self, relative: str = "") -> list[str]:
        """Return the names in a folder, sorted; none when there is no folder."""
        if not self.is_folder(relative):
            return []
        found = self._do(relative, self._files.listStatus, self._at(relative))
        return sorted(str(status.getPath().getName()) for status in found)

    def make_folder(self, relative: str = "") -> None:
        """Make a folder and those above it."""
        if not self._do(relative, self._files.mkdirs, self._at(relative)):
            raise self._failed(relative, "the folder cannot be made")

    def remove(self, relative: str) -> None:
        """Remove a file or a folder with all that is in it; nothing there is no error."""
        self._do(relative, self._files.delete, self._at(relative), True)

    def replace_folder(self, made: str, target: str) -> None:
        """Let the folder `made` take the name `target`, in place of what has it."""
        aside = _beside(target, ASIDE)
        self.remove(aside)
        if self.exists(target):
            self._rename(target, aside)
        self._rename(made, target)
        self.remove(aside)

    def _rename(self, old: str, new: str) -> None:
        if not self._do(old, self._files.rename, self._at(old), self._at(new)):
            raise self._failed(old, f"cannot be renamed to {new!r}")

    def read_text(self, relative: str) -> str:
        """Return the content of a small file."""
        stream = self._do(relative, self._files.open, self._at(relative))
        try:
            return str(self._do(relative, self._jvm.org.apache.commons.io.IOUtils.toString, stream, "UTF-8"))
        finally:
            stream.close()

    def read_json(self, relative: str) -> dict[str, Any]:
        """Return the JSON object in a small file; an empty one for anything else."""
        try:
            found = json.loads(self.read_text(relative))
        except json.JSONDecodeError:
            return {}
        return found if isinstance(found, dict) else {}

    def create_text(self, relative: str, text: str) -> None:
        """Write a small file. The content is written beside it first: a file that has the name is whole."""
        temporary = _beside(relative, "_new-")
        stream = self._do(relative, self._files.create, self._at(temporary), True)
        try:
            self._do(relative, stream.write, bytearray(text.encode("utf-8")))
        finally:
            self._do(relative, stream.close)
        self._rename(temporary, relative)

    def _failed(self, relative: str, what: str) -> InvalidFileError:
        return invalid_file(self.path(relative), None, what)


def _beside(relative: str, prefix: str) -> str:
    folder, slash, name = relative.rpartition("/")
    return f"{folder}{slash}{prefix}{name}"
