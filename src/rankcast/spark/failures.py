"""One line that says why Spark failed, out of the many that it gives.

An error in a worker or in a sink reaches the driver as the text of a traceback, inside the text of another error. What
matters is the innermost exception; of an error of rankcast, its message alone, which names place and value already.
"""

from __future__ import annotations

import re

_RAISED = re.compile(r"^(?:[A-Za-z_]\w*\.)*([A-Z]\w*(?:Error|Exception|Interrupt)): (.+)$", re.MULTILINE)
_OWN = re.compile(r"^rankcast\.[\w.]+: (.+)$", re.MULTILINE)
_CLASS = re.compile(r"^\[[A-Z_.0-9]+\] ")


def reason_of(error: BaseException) -> str:
    """Return the reason of a failure in one line.

    >>> reason_of(
    ...     Exception(
    ...         "[X_FAILED] no\\nTraceback:\\n  File ...\\nrankcast.model.errors.InvalidFileError: out: is full\\n"
    ...     )
    ... )
    'out: is full'
    >>> reason_of(Exception("[TABLE_OR_VIEW_NOT_FOUND] The table `x` cannot be found.\\n== Plan ==\\n..."))
    'The table `x` cannot be found.'
    """
    text = str(error)
    own = _OWN.findall(text)
    if own:
        return str(own[0])
    if "Traceback" in text:
        raised = _RAISED.findall(text[text.index("Traceback") :])
        if raised:
            name, message = raised[0]
            return f"{name}: {message}"
    lines = [line for line in text.splitlines() if line.strip()]
    return _CLASS.sub("", lines[0].strip()) if lines else type(error).__name__
