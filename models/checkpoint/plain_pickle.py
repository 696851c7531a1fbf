"""A pickle reader that cannot run code: thirty opcodes, and five constructors that it implements itself.

`torch.load(weights_only=True)` runs no code either, but it builds sparse, meta and overlapping tensors, fails with many
unrelated exceptions, and does not end on some small files (docs/checkpoints.md). This reader knows plain values and the
three ways in which torch writes a strided tensor; it refuses anything else by name. It agrees with torch.load on
everything that torch.save writes of plain tensors (tested).
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from counting_interp.models.checkpoint.contents import MAX_HEADER_BYTES
from counting_interp.util.errors import Refused, printable, quoted

MAX_OPERATIONS = 100_000

ORDERED_DICT = "collections.OrderedDict"
REBUILD_TENSOR = "torch._utils._rebuild_tensor_v2"
REBUILD_WITH_DTYPE = "torch._utils._rebuild_tensor_v3"
REBUILD_PARAMETER = "torch._utils._rebuild_parameter"
STORAGES = {  # and the dtypes of their elements
    "torch.FloatStorage": "float32",
    "torch.DoubleStorage": "float64",
    "torch.HalfStorage": "float16",
    "torch.BFloat16Storage": "bfloat16",
    "torch.LongStorage": "int64",
    "torch.IntStorage": "int32",
    "torch.ShortStorage": "int16",
    "torch.CharStorage": "int8",
    "torch.ByteStorage": "uint8",
    "torch.BoolStorage": "bool",
}
UNTYPED_STORAGE = "torch.storage.UntypedStorage"
LATE_DTYPES = {"torch.uint16": "uint16", "torch.uint32": "uint32", "torch.uint64": "uint64"}
KNOWN = {ORDERED_DICT, REBUILD_TENSOR, REBUILD_WITH_DTYPE, REBUILD_PARAMETER, UNTYPED_STORAGE, *STORAGES, *LATE_DTYPES}

_KINDS = {
    "sparse": "sparse tensors; call .to_dense() on each before saving",
    "meta": "meta tensors, which have no values; save the materialised model",
    "qint": "quantised tensors; call .dequantize() on each before saving",
    "qtensor": "quantised tensors; call .dequantize() on each before saving",
    "complex": "complex tensors; a counting model has real weights",
    "nested": "nested tensors; save plain ones",
}


@dataclass(frozen=True)
class Global:
    """A global name in the pickle. It is compared, never imported."""

    name: str


@dataclass(frozen=True)
class Storage:
    """One record of the archive: its key, and the dtype of its elements if the storage has one."""

    dtype: str | None
    key: str


@dataclass(frozen=True)
class StoredTensor:
    """A tensor as the pickle describes it, unchecked."""

    storage: Storage
    offset: Any
    shape: Any
    stride: Any
    dtype: str


def load(data: bytes) -> Any:
    """The object that `data` describes: plain values, dicts, lists, tuples, and StoredTensor for tensors."""
    if len(data) > MAX_HEADER_BYTES:
        raise Refused(f"describes its content in {len(data):,} bytes; at most {MAX_HEADER_BYTES:,} are read")
    machine = _Machine()
    try:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(data)):
            if count > MAX_OPERATIONS:
                raise Refused(f"describes its content in more than {MAX_OPERATIONS:,} steps")
            if opcode.name == "STOP":
                return machine.pop()
            machine.step(opcode.name, argument)
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError):
        raise Refused("holds a damaged pickle; copy or download it again") from None
    raise Refused("holds a pickle without an end; copy or download it again")


class _Machine:
    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def pop(self) -> Any:
        if self.marks and len(self.stack) <= self.marks[-1]:
            raise IndexError
        return self.stack.pop()

    def since_mark(self) -> list[Any]:
        start = self.marks.pop()
        items = self.stack[start:]
        del self.stack[start:]
        return items

    def step(self, name: str, argument: Any) -> None:
        if name in _LITERALS:
            self.stack.append(_literal(argument))
        elif name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name]())
        elif name in _ACTIONS:
            _ACTIONS[name](self, argument)
        else:
            raise Refused(f"holds a pickle instruction ({name}) that plain tensors do not need; {SAVE_WEIGHTS}")

    def put(self, argument: int) -> None:
        self.memo[argument] = self.stack[-1]

    def make_tuple(self, size: int) -> None:
        items = [self.pop() for _ in range(size)]
        self.stack.append(tuple(reversed(items)))

    def append(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not list:
            raise TypeError
        target.extend(items)

    def set_items(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not dict or len(items) % 2:
            raise TypeError
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, (str, int)):
                raise Refused("holds a table whose keys are not names")
            if key in target:
                raise Refused(f"holds the key {quoted(key)} twice")
            target[key] = value

    def name_global(self, name: str) -> None:
        if name not in KNOWN:
            kind = next((text for word, text in _KINDS.items() if word in name.lower()), None)
            if kind and name.startswith("torch."):
                raise Refused(f"holds {kind}")
            raise Refused(f"names code to run ({printable(name, 80)}), which is never run; {SAVE_WEIGHTS}")
        self.stack.append(Global(name))

    def stack_global(self) -> None:
        name, module = self.pop(), self.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise TypeError
        self.name_global(f"{module}.{name}")

    def persistent(self) -> None:
        tag, kind, key, _location, _elements = self.pop()
        if tag != "storage" or not isinstance(kind, Global) or not isinstance(key, str):
            raise TypeError
        if kind.name not in STORAGES and kind.name != UNTYPED_STORAGE:
            raise TypeError
        self.stack.append(Storage(STORAGES.get(kind.name), key))

    def reduce(self) -> None:
        arguments, function = self.pop(), self.pop()
        if not isinstance(function, Global) or not isinstance(arguments, tuple):
            raise TypeError
        if function.name == ORDERED_DICT and not arguments:
            self.stack.append({})
        elif function.name == REBUILD_TENSOR:
            storage, offset, shape, stride, *_ = arguments
            self.stack.append(_stored(storage, offset, shape, stride, storage.dtype))
        elif function.name == REBUILD_WITH_DTYPE:
            storage, offset, shape, stride, _, _, dtype, *_ = arguments
            self.stack.append(_stored(storage, offset, shape, stride, LATE_DTYPES[dtype.name]))
        elif function.name == REBUILD_PARAMETER and isinstance(arguments[0], StoredTensor):
            self.stack.append(arguments[0])
        else:
            raise TypeError

    def build(self) -> None:
        """Ignore the `_metadata` attribute of a state_dict, which holds module versions."""
        self.pop()
        if type(self.stack[-1]) is not dict:
            raise TypeError


def _stored(storage: Any, offset: Any, shape: Any, stride: Any, dtype: str | None) -> StoredTensor:
    if not isinstance(storage, Storage) or dtype is None:
        raise TypeError
    return StoredTensor(storage, offset, shape, stride, dtype)


def _literal(value: Any) -> Any:
    if isinstance(value, int) and value.bit_length() > 64:
        raise Refused("holds an integer beyond 64 bits")
    return value


SAVE_WEIGHTS = "save model.state_dict(), not the model"
_LITERALS = {"BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE"}
_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
}
_ACTIONS: dict[str, Callable[[_Machine, Any], object]] = {
    "PROTO": lambda machine, version: None,
    "FRAME": lambda machine, size: None,
    "MARK": lambda machine, _: machine.marks.append(len(machine.stack)),
    "BINPUT": _Machine.put,
    "LONG_BINPUT": _Machine.put,
    "MEMOIZE": lambda machine, _: machine.put(len(machine.memo)),
    "BINGET": lambda machine, key: machine.stack.append(machine.memo[key]),
    "LONG_BINGET": lambda machine, key: machine.stack.append(machine.memo[key]),
    "TUPLE": lambda machine, _: machine.stack.append(tuple(machine.since_mark())),
    "TUPLE1": lambda machine, _: machine.make_tuple(1),
    "TUPLE2": lambda machine, _: machine.make_tuple(2),
    "TUPLE3": lambda machine, _: machine.make_tuple(3),
    "APPEND": lambda machine, _: machine.append([machine.pop()]),
    "APPENDS": lambda machine, _: machine.append(machine.since_mark()),
    "SETITEM": lambda machine, _: machine.set_items([machine.pop(), machine.pop()][::-1]),
    "SETITEMS": lambda machine, _: machine.set_items(machine.since_mark()),
    "GLOBAL": lambda machine, name: machine.name_global(name.replace(" ", ".", 1)),
    "STACK_GLOBAL": lambda machine, _: machine.stack_global(),
    "BINPERSID": lambda machine, _: machine.persistent(),
    "REDUCE": lambda machine, _: machine.reduce(),
    "BUILD": lambda machine, _: machine.build(),
}
