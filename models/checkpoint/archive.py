"""The zip archive that torch.save writes: uncompressed records in one folder, read in place; nothing else gets through.

Written out rather than left to `zipfile.infolist()`, which builds an object per entry before anything can be counted:
60 MB of directory took it 49 s and 0.7 GB. Records here are views of the file's bytes, held against their checksums.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from counting_interp.models.checkpoint.contents import MAX_HEADER_BYTES, MAX_TENSORS, Refused
from counting_interp.util.errors import quoted

_DAMAGED = "is a damaged archive; copy or download it again"
_AGAIN = "save it again with torch.save"
_END = struct.Struct("<4s4H2IH")  # signature, disks, entries here and in all, directory size and offset, comment
_END_64 = struct.Struct("<4sQ2H2I4Q")
_ENTRY = struct.Struct("<4s4B4HL2L5H2L")
_LOCAL = struct.Struct("<4s2B4HL2L2H")


@dataclass(frozen=True)
class _Entry:
    name: str
    stored: bool
    checksum: int
    size: int
    offset: int


def records(data: bytes) -> dict[str, memoryview]:
    """The records by their name inside the archive's one folder: `data.pkl`, `data/0`, ..."""
    entries = list(_directory(data))
    _check_names([entry.name for entry in entries])
    if sum(entry.size for entry in entries) > len(data):
        raise Refused(f"is an archive whose records inflate beyond the file itself; {_AGAIN}")
    return {entry.name.split("/", 1)[1]: _record(data, entry) for entry in entries}


def _directory(data: bytes) -> Iterator[_Entry]:
    """The end record must close the file, as torch writes it; so nothing is searched for and nothing was appended."""
    if len(data) < _END.size or data[-_END.size :][:4] != b"PK\5\6" or data[-2:] != b"\0\0":
        raise Refused("has no end: it was cut off, or something was appended; copy or download it again")
    *_, total, size, offset, _ = _END.unpack(data[-_END.size :])
    locator = len(data) - _END.size - 20
    if data[max(locator, 0) :][:4] == b"PK\6\7" and locator >= _END_64.size:
        signature, *_, total, size, offset = _END_64.unpack(data[locator - _END_64.size : locator])
        if signature != b"PK\6\6":
            raise Refused(_DAMAGED)
    if total > MAX_TENSORS + 16 or size > MAX_HEADER_BYTES:
        raise Refused(f"is an archive of {total:,} records; a checkpoint has at most {MAX_TENSORS:,}")
    if offset + size > len(data):
        raise Refused(_DAMAGED)
    for _ in range(total):
        if offset + _ENTRY.size > len(data):
            raise Refused(_DAMAGED)
        fields = _ENTRY.unpack_from(data, offset)
        flags, method, checksum, packed, unpacked = fields[5], fields[6], *fields[9:12]
        length, extra, comment = fields[12:15]
        if fields[0] != b"PK\1\2" or offset + _ENTRY.size + length > len(data):
            raise Refused(_DAMAGED)
        name = data[offset + _ENTRY.size : offset + _ENTRY.size + length].decode("utf-8", "replace")
        yield _Entry(name, method == 0 and not flags & 1 and packed == unpacked, checksum, unpacked, fields[18])
        offset += _ENTRY.size + length + extra + comment


def _check_names(names: list[str]) -> None:
    if len(set(names)) < len(names):
        raise Refused(f"is an archive with two records of the same name; {_AGAIN}")
    for name in names:
        parts = name.split("/")
        if len(parts) < 2 or any(part in ("", ".", "..") for part in parts) or not name.isprintable() or "\\" in name:
            raise Refused(f"holds a record with an odd name ({quoted(name)}); {_AGAIN}")
    if len({name.split("/")[0] for name in names}) > 1:
        raise Refused("is an archive of several folders, not what torch.save writes; give the checkpoint inside it")


def _record(data: bytes, entry: _Entry) -> memoryview:
    if not entry.stored:
        raise Refused(f"holds compressed or encrypted records ({quoted(entry.name)}); {_AGAIN}")
    if entry.offset + _LOCAL.size > len(data):
        raise Refused(_DAMAGED)
    signature, *_, length, extra = _LOCAL.unpack_from(data, entry.offset)
    start = entry.offset + _LOCAL.size + length + extra
    record = memoryview(data)[start : start + entry.size]
    if signature != b"PK\3\4" or len(record) != entry.size or zlib.crc32(record) != entry.checksum:
        raise Refused(f"holds a record whose checksum fails ({quoted(entry.name)}), so it {_DAMAGED}")
    return record
