"""The weights of a checkpoint as exact integers, read without torch, and the hash that names them.

A zip file can be made to say different things to different readers: two directories, records that overlap, bytes that
nobody names. So this reader accepts the one form that torch.save writes. The end record closes the file, and the one
directory lies right before it. The records fill everything from the first byte to the directory, in its order, without
gaps. All are stored as they are, in one folder, each under a name of its own.
"""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import struct
import zlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, NoReturn

OURS = "counting-interp"
MAX_BYTES = 64 * 2**20
LETTERS = {"F32": "f", "F64": "d"}
KINDS = {"float32": "F32", "float64": "F64"}
STORAGES = {"FloatStorage": "F32", "DoubleStorage": "F64"}
FORMAT_VERSION = 1
TRAINING = "training_state"


@dataclass(frozen=True)
class Tensor:
    """Little-endian numbers in row order. kind: F32 or F64."""

    kind: str
    shape: tuple[int, ...]
    data: bytes

    def integers(self) -> tuple[list[int], int]:
        """(n, bits): the values are n / 2^bits, exactly."""
        if self.kind not in LETTERS or len(self.data) != prod(self.shape) * struct.calcsize(LETTERS[self.kind]):
            raise Unreadable("has weights that are not float32 or float64, or not all of them")
        values = struct.unpack(f"<{prod(self.shape)}{LETTERS[self.kind]}", self.data)
        try:
            ratios = [value.as_integer_ratio() for value in values]
        except (OverflowError, ValueError):
            raise Unreadable("has weights that are not finite") from None
        bits = max((below.bit_length() - 1 for _, below in ratios), default=0)
        return [above << (bits + 1 - below.bit_length()) for above, below in ratios], bits


def digest(tensors: Mapping[str, Tensor]) -> str:
    """sha256 over name, dtype, shape and bytes of each tensor in order of names: the `sha256` of our checkpoints."""
    sha = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        sha.update(f"{name}\0{tensor.kind}\0{list(tensor.shape)}\0".encode("utf-8", "surrogatepass"))
        sha.update(tensor.data)
    return sha.hexdigest()


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors by name, all of one kind, and the configuration.

    A file without a configuration is refused: whether its attention has a softmax, for one, is not in its weights, so
    it can be read in more than one way.
    """
    data = content(path, MAX_BYTES, Unreadable)
    try:
        tensors, facts = _archive(data) if data[:4] == b"PK\3\4" else _safetensors(data)
    except Unreadable:
        raise
    except Exception as error:  # whatever a damaged file makes of these few lines
        raise Unreadable(f"is damaged or no checkpoint ({type(error).__name__})") from None
    config = facts.get("config") if isinstance(facts, dict) else None
    if not isinstance(config, dict):
        raise Unreadable("states no configuration, so it can be read in more than one way; save it with model.save")
    if type(facts.get("format_version")) is not int or facts["format_version"] != FORMAT_VERSION:
        raise Unreadable(f"is not of format version {FORMAT_VERSION}")
    if facts.get("sha256") != digest(tensors):
        raise Unreadable("was changed after it was written: its sha256 does not hold")
    kinds = {tensor.kind for tensor in tensors.values()}
    if kinds != {KINDS.get(config.get("dtype", "float32"))}:
        raise Unreadable("has weights of several kinds, or of another kind than it says")
    return tensors, config


def _safetensors(data: bytes) -> tuple[dict[str, Tensor], Any]:
    """A length, a header, and tensors that use up the rest of the file from end to end, in some order."""
    (length,) = struct.unpack("<Q", data[:8])
    header = strict_json(data[8 : 8 + length])
    facts = header.pop("__metadata__", {})
    body = data[8 + length :]
    tensors, end = {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        start, stop = entry["data_offsets"]
        if set(entry) != {"dtype", "shape", "data_offsets"} or start != end or stop < start:
            raise Unreadable("has tensors that overlap, or bytes that belong to none")
        end = stop
        if not (name.startswith(f"{TRAINING}.") and TRAINING in facts):
            tensors[name] = Tensor(entry["dtype"], tuple(entry["shape"]), body[start:stop])
    if end != len(body) or 8 + length > len(data):
        raise Unreadable("is cut off, or something was appended")
    return tensors, strict_json(facts[OURS]) if OURS in facts else None


def strict_json(text: bytes | str, **options: Any) -> Any:
    """A document without NaN or infinity in which no key stands twice. Raises ValueError for any other."""

    def table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError("a key stands twice")
        return dict(pairs)

    return json.loads(text, object_pairs_hook=table, parse_constant=no_number, **options)


def no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number here")


def _archive(data: bytes) -> tuple[dict[str, Tensor], Any]:
    """What torch.save writes: a zip of stored records, described by a pickle."""
    records = records_of(data)
    if records.get("byteorder", b"little") != b"little":
        raise Unreadable("was written on a big-endian machine")
    root = _Pickle(io.BytesIO(records["data.pkl"]), records).load()
    if root.get("format") != OURS:
        return {}, None
    tensors = root["state_dict"]
    if not all(isinstance(tensor, Tensor) for tensor in tensors.values()):
        raise Unreadable("holds something other than weights")
    return dict(tensors), root["metadata"]


class _Pickle(pickle.Unpickler):
    """Knows four names; any other stops it. Nothing that a file names is ever looked up."""

    def __init__(self, file: io.BytesIO, records: dict[str, bytes]) -> None:
        super().__init__(file)
        self.records = records

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return self._tensor
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return lambda tensor, *rest: tensor
        if module == "torch" and name in STORAGES:
            return name
        raise Unreadable("holds more than plain float32 or float64 tensors")

    def persistent_load(self, saved: Any) -> tuple[str, bytes]:
        return STORAGES[saved[1]], self.records[f"data/{saved[2]}"]

    @staticmethod
    def _tensor(storage: tuple[str, bytes], offset: int, shape: Any, stride: Any, *rest: Any) -> Tensor:
        expected, size = [], 1
        for length in reversed(shape):
            expected.append(size)
            size *= length
        if offset != 0 or any(
            length > 1 and have != want for length, have, want in zip(shape, stride, reversed(expected), strict=True)
        ):
            raise Unreadable("has tensors that are views; save .contiguous() copies")
        return Tensor(storage[0], tuple(shape), storage[1])


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


def records_of(data: bytes) -> dict[str, bytes]:
    """By their names inside the one folder: `data.pkl`, `data/0`, ..."""
    entries, directory = _directory(data)
    records: dict[str, bytes] = {}
    folders = set()
    at = 0
    for index, entry in enumerate(entries):
        following = entries[index + 1].offset if index + 1 < len(entries) else directory
        if entry.offset != at:
            raise Unreadable("is an archive with gaps, or its records are out of order")
        folder, _, name = entry.name.decode("ascii").partition("/")
        if not name or name in records:
            raise Unreadable("is an archive with two records of the same name, or with one outside its folder")
        records[name] = _record(data, entry, following)
        folders.add(folder)
        at = following
    if len(folders) != 1 or at != directory:
        raise Unreadable("is an archive of several folders, or with gaps")
    return records


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


class Unreadable(Exception):  # noqa: N818 (a reason; the command says which file)
    """Why a checkpoint cannot be used for a check."""


class Refused(Exception):  # noqa: N818 (a reason; the command says which file)
    """Why a certificate proves nothing."""


def content(path: Path, most: int, error: type[Exception]) -> bytes:
    """The bytes of a regular file of at most `most` bytes; else `error` says why not."""
    if not path.exists():
        raise error("does not exist")
    if not path.is_file() or path.stat().st_size > most:
        raise error(f"is not a regular file of at most {most:,} bytes")
    return path.read_bytes()
