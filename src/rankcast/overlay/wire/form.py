"""Messages as bytes: a JSON object with the version of the form, the name of the message and its fields.

    {"rankcast": 1, "is": "Withdraw", "key": ["ana", "1"]}

A packet holds its message under "message". `codec` says how each type of field is written, docs/overlay.md lists the
messages. Reading refuses bytes of another version, too many of them, or that are no message, with a reason.
"""

from __future__ import annotations

import json

from rankcast.model.cloudevents import parse_json
from rankcast.model.errors import InvalidEventError, InvalidMessageError, shown
from rankcast.overlay.wire.codec import from_plain, to_plain
from rankcast.overlay.wire.messages import Message, Packet

VERSION = 1
MAX_BYTES = 1_000_000
"""Bytes of one message of a client: far beyond every sensible filter or payload, and quick to refuse."""

MAX_PACKET_BYTES = 16 * MAX_BYTES
"""Bytes of one message of a broker, which wraps what its clients said and may list whom an event is for."""


def encoded(message: Message) -> bytes:
    """Return a message as bytes; raise InvalidMessageError when it has too many.

    >>> from rankcast.overlay.wire.messages import Renew
    >>> encoded(Renew())
    b'{"rankcast":1,"is":"Renew"}'
    """
    plain = {"rankcast": VERSION, **to_plain(message, Message)}
    data = json.dumps(plain, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    _check_size(data, MAX_PACKET_BYTES if isinstance(message, Packet) else MAX_BYTES)
    return data


def decoded(data: bytes, most: int = MAX_PACKET_BYTES) -> Message:
    """Return the message of at most so many bytes; raise InvalidMessageError, with the reason, when there is none."""
    _check_size(data, most)
    try:
        plain = parse_json(data)
    except InvalidEventError as error:
        raise InvalidMessageError(str(error)) from None
    if b"\\u" in data:
        _check_texts(plain)
    if not isinstance(plain, dict) or "rankcast" not in plain:
        raise InvalidMessageError(f"{shown(plain)} is not a message of rankcast")
    version = plain.pop("rankcast")
    if version != VERSION or isinstance(version, bool):
        raise InvalidMessageError(f"version {shown(version)} is not known; expected {VERSION}")
    message: Message = from_plain(plain, Message)
    return message


def _check_size(data: bytes, most: int) -> None:
    if len(data) > most:
        raise InvalidMessageError(f"a message of {len(data):,} bytes is longer than {most:,}")


def _check_texts(plain: object) -> None:
    """Raise when a text holds half a surrogate pair, which escapes can express and bytes cannot."""
    try:
        json.dumps(plain, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InvalidMessageError("a text holds half a surrogate pair, which is not text") from None
