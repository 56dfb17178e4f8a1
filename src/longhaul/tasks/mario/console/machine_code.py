"""Programs as native code of this machine, made once and kept beside Numba's own cache."""

from __future__ import annotations

import functools
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import llvmlite
import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from longhaul.tasks.mario.console.layout import console_stamp
from longhaul.tasks.mario.console.translate import translate

CODE_GENERATION = 1
"""LLVM's higher levels take four times as long and do not make faster code."""
DIGEST_SIZE = 32

_engines: list[Any] = []
"""Native code lives as long as the engine that loaded it."""


@functools.cache
def _target() -> Any:
    """Return the machine we are on, as LLVM sees it."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=CODE_GENERATION,
        jit=True,
        codemodel="jitdefault",
    )


def _compile(prg: bytes) -> bytes:
    """Return a program as an object file."""
    module = llvm.parse_assembly(translate(prg))
    module.verify()
    compiled: bytes = _target().emit_object(module)
    return compiled


def _load(compiled: bytes) -> int:
    """Return where the function `run` of an object file is, once it is in memory."""
    empty = llvm.parse_assembly("")
    engine = llvm.create_mcjit_compiler(empty, _target())
    engine.add_object_file(llvm.ObjectFileRef.from_data(compiled))
    engine.finalize_object()
    _engines.append(engine)
    return int(engine.get_function_address("run"))


def _cache_name(prg: bytes) -> str:
    """Return a name that differs for another program, translator, library or processor."""
    digest = hashlib.blake2b(prg, digest_size=12)
    features = llvm.get_host_cpu_features().flatten()
    for part in (str(console_stamp()), llvmlite.__version__, llvm.get_host_cpu_name(), features):
        digest.update(part.encode())
    return f"program-{digest.hexdigest()}.o"


def _cache_folders() -> Iterator[Path]:
    """Yield where native code may be kept, as Numba chooses it."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen:
        yield Path(chosen)
    yield Path(__file__).parent / "__pycache__"
    yield Path(tempfile.gettempdir()) / f"longhaul-native-{os.getuid()}"


def _read_cached(name: str) -> bytes | None:
    """Return an object file that was kept, if it is whole and our own."""
    for folder in _cache_folders():
        with suppress(OSError):
            path = folder / name
            if path.stat().st_uid != os.getuid():
                continue
            kept = path.read_bytes()
            digest, compiled = kept[:DIGEST_SIZE], kept[DIGEST_SIZE:]
            if hashlib.blake2b(compiled, digest_size=DIGEST_SIZE).digest() == digest:
                return compiled
    return None


def _keep(name: str, compiled: bytes) -> None:
    """Keep an object file in the first folder that can be written, if there is one."""
    digest = hashlib.blake2b(compiled, digest_size=DIGEST_SIZE).digest()
    for folder in _cache_folders():
        with suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=folder, prefix=name)
            with os.fdopen(handle, "wb") as file:
                file.write(digest + compiled)
            Path(temporary).replace(folder / name)
            return


@functools.cache
def native_program(prg: bytes) -> int:
    """Return where the native code of a program of 32 KiB is; a program is compiled only once."""
    name = _cache_name(prg)
    compiled = _read_cached(name)
    if compiled is None:
        compiled = _compile(prg)
        _keep(name, compiled)
    return _load(compiled)


def _type_run(typing_context: Any, code: Any, row: Any) -> Any:
    """Return the types of a call of native code and what generates it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = ir.IntType(8).as_pointer()
        function = ir.FunctionType(ir.VoidType(), [pointer])
        entrance = builder.inttoptr(arguments[0], function.as_pointer())
        builder.call(entrance, [builder.inttoptr(arguments[1], pointer)])
        return context.get_dummy_value()

    return types.void(types.int64, types.uintp), generate


run_native = cast(Callable[[int, int], None], intrinsic(_type_run))
"""Run the native code at an address, on the row of memory at another, until it leaves."""
