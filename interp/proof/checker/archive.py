"""The records of a zip archive as torch.save writes it, and of no other.

A zip file can be made to say different things to different readers: two directories, records that overlap, bytes that
nobody names. So this reader accepts one form only. The end record closes the file; the one directory lies where it
says, right before it; the records fill everything from the first byte to the directory, in the directory's order,
without gaps; all are stored as they are, in one folder, each under a name of its own.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

from counting_interp.interp.proof.checker.files import Unreadable

MAX_RECORDS = 10_000
END = struct.Struct("<4s4H2IH")  # signature, disks, entries here and in all, size and offset of the directory, comment
END_64 = struct.Struct("<4sQ2H2I4Q")
LOCATOR = struct.Struct("<4sIQI")
ENTRY = struct.Struct("<4s6H3I5H2I")
LOCAL = struct.Struct("<4s5H3I2H")
DESCRIBED = 8  # flag: checksum and sizes follow the record
ENCRYPTED = 1


@dataclass(frozen=True)
class Entry:
    """What the directory says of a record."""

    name: bytes
    flags: int
    checksum: int
    size: int
    offset: int


def records(data: bytes) -> dict[str, bytes]:
    """By their names inside the one folder: `data.pkl`, `data/0`, ..."""
    entries, directory = _directory(data)
    found: dict[str, bytes] = {}
    folders = set()
    at = 0
    for index, entry in enumerate(entries):
        following = entries[index + 1].offset if index + 1 < len(entries) else directory
        if entry.offset != at:
            raise Unreadable("is an archive with gaps, or its records are out of order")
        folder, _, name = entry.name.decode("ascii").partition("/")
        if not name or name in found:
            raise Unreadable("is an archive with two records of the same name, or with one outside its folder")
        found[name] = _record(data, entry, following)
        folders.add(folder)
        at = following
    if len(folders) != 1 or at != directory:
        raise Unreadable("is an archive of several folders, or with gaps")
    return found


def _directory(data: bytes) -> tuple[list[Entry], int]:
    """The entries and where the directory begins."""
    last = len(data) - END.size
    signature, disk, first_disk, here, total, size, offset, comment = END.unpack(data[last:])
    if signature != b"PK\5\6" or disk or first_disk or here != total or comment:
        raise Unreadable("has no end: it was cut off, or something was appended")
    if data[last - LOCATOR.size :][:4] == b"PK\6\7":
        last -= LOCATOR.size + END_64.size
        _, _, where, disks = LOCATOR.unpack_from(data, last + END_64.size)
        fields = END_64.unpack_from(data, last)
        if fields[0] != b"PK\6\6" or where != last or disks != 1 or fields[6:] != (total, total, size, offset):
            raise Unreadable("has two ends that disagree")
    if total > MAX_RECORDS or offset + size != last:
        raise Unreadable("is an archive whose directory is not where it says")
    entries, at = [], offset
    for _ in range(total):
        fields = ENTRY.unpack_from(data, at)
        (flags, method), (checksum, packed, unpacked), (length, extra, note) = fields[3:5], fields[7:10], fields[10:13]
        if fields[0] != b"PK\1\2" or method or packed != unpacked or flags & ENCRYPTED or note:
            raise Unreadable("holds compressed, encrypted or damaged records")
        name = data[at + ENTRY.size : at + ENTRY.size + length]
        entries.append(Entry(name, flags, checksum, unpacked, fields[16]))
        at += ENTRY.size + length + extra
    if at != last:
        raise Unreadable("is an archive whose directory is longer than it says")
    return entries, offset


def _record(data: bytes, entry: Entry, following: int) -> bytes:
    """The record of `entry`, which must end where the following one begins."""
    fields = LOCAL.unpack_from(data, entry.offset)
    flags, method, (length, extra) = fields[2], fields[3], fields[9:11]
    start = entry.offset + LOCAL.size + length + extra
    name = data[entry.offset + LOCAL.size : entry.offset + LOCAL.size + length]
    if fields[0] != b"PK\3\4" or name != entry.name or flags != entry.flags or method:
        raise Unreadable("holds a record that its directory describes otherwise")
    record, behind = data[start : start + entry.size], data[start + entry.size : following]
    described = struct.pack("<4sI", b"PK\7\x08", entry.checksum) if flags & DESCRIBED else b""
    sizes = [struct.pack(form, entry.size, entry.size) for form in ("<2I", "<2Q")] if described else [b""]
    if len(record) != entry.size or behind not in [described + size for size in sizes]:
        raise Unreadable("is an archive with gaps, or its records overlap")
    if zlib.crc32(record) != entry.checksum:
        raise Unreadable("holds a record whose checksum fails")
    return record
