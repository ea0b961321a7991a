"""Content-addressed results: a stage is computed once for each config and source.

An artifact is a directory ``STAGE-KEY`` with ``data.npz`` (arrays), ``metrics.json`` (all else)
and ``manifest.json`` (what it was made from, how long that took, and the hashes of the other two).
It is written to a temporary directory and renamed into place, so a reader never sees half of one.
"""

import ast
import dataclasses
import hashlib
import io
import json
import math
import re
import shutil
import tempfile
import time
import types
import typing
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from clusterdyn.config import canonical_json

PACKAGE = Path(__file__).resolve().parent
SCHEMA_VERSION = 1

_PUT_ATTEMPTS = 100
# What reading half of an artifact, or one of somebody else's making, can raise.
_DAMAGE = (OSError, ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile)

Result = TypeVar("Result")


def default_root() -> Path:
    """Where artifacts live unless told otherwise: ``artifacts`` beside the package."""
    return PACKAGE.parent / "artifacts"


def imported_sources(module: str) -> list[Path]:
    """Source files of a module of this package and of all that it imports from the package.

    Args:
        module: dotted name, such as ``clusterdyn.training``.

    Returns:
        Paths in the order of their names.
    """
    found: dict[str, Path] = {}
    pending = [module]
    while pending:
        name = pending.pop()
        path = PACKAGE.parent / Path(*name.split("."))
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if name in found or name == PACKAGE.name or not path.exists():
            continue
        found[name] = path
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                pending += [node.module, *(f"{node.module}.{a.name}" for a in node.names)]
            elif isinstance(node, ast.Import):
                pending += [a.name for a in node.names]
        pending = [p for p in pending if p.split(".")[0] == PACKAGE.name]
    return [found[name] for name in sorted(found)]


@cache
def source_hash(module: str) -> str:
    """sha256 of a module and all that it imports from the package, as they were when first asked.

    A process has imported its sources once; what changes on disk later is not what it runs.
    """
    digest = hashlib.sha256()
    for path in imported_sources(module):
        digest.update(path.relative_to(PACKAGE).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class Stage:
    """What an artifact is made from.

    Attributes:
        name: such as "train-full".
        module: whose source, with its imports, decides the result.
        config: whatever JSON can hold, or a dataclass.
        upstream: keys of the artifacts that went in.
    """

    name: str
    module: str
    config: Any
    upstream: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """sha256 over all of it and the schema version."""
        parts = {
            "config": json.loads(canonical_json(self.config)),
            "name": self.name,
            "schema": SCHEMA_VERSION,
            "source": source_hash(self.module),
            "upstream": list(self.upstream),
        }
        return hashlib.sha256(canonical_json(parts).encode()).hexdigest()


@dataclass(frozen=True)
class ArtifactStore:
    """A directory of artifacts.

    Attributes:
        root: the directory; made when first written to.
        progress: called with one line when a stage is reused, computed or found damaged.
    """

    root: Path
    progress: Callable[[str], None] = print

    def directory(self, stage: Stage) -> Path:
        """Where a stage's artifact is, or would be."""
        slug = re.sub(r"[^A-Za-z0-9_.]+", "-", stage.name).strip("-")
        return self.root / f"{slug}-{stage.key[:16]}"

    def load_or_compute(
        self, stage: Stage, kind: type[Result], compute: Callable[[], Result]
    ) -> Result:
        """The stage's result: from its artifact if that is whole, else computed and stored.

        Args:
            stage: what the result is made from.
            kind: dataclass of the result, of arrays, numbers, texts, tuples and dataclasses.
            compute: makes the result.
        """
        key = stage.key
        directory = self.directory(stage)
        if directory.exists():
            try:
                result = _read(directory, key, kind)
            except _DAMAGE as error:
                self.progress(
                    f"warning: artifact {directory.name} is damaged ({error}); computing it again"
                )
            else:
                self.progress(f"{stage.name}: reused artifact {key[:16]}")
                return result
        self.progress(f"{stage.name}: computing")
        started = time.perf_counter()
        result = compute()
        self.keep(stage, result, time.perf_counter() - started)
        return result

    def keep(self, stage: Stage, result: Any, seconds: float) -> None:
        """Stores a stage's result, and the time it took in s; a whole artifact there stays."""
        _write(self.directory(stage), stage.key, stage, result, seconds)

    def seconds(self, stage: Stage) -> float | None:
        """How long the stage took when its artifact was made; None if there is no artifact."""
        try:
            manifest = json.loads((self.directory(stage) / "manifest.json").read_bytes())
            return float(manifest["seconds"])
        except _DAMAGE:
            return None


def _write(directory: Path, key: str, stage: Stage, result: Any, seconds: float) -> None:
    arrays: dict[str, np.ndarray] = {}
    metrics = _encode(result, "", arrays)
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    files = {
        "data.npz": buffer.getvalue(),
        "metrics.json": json.dumps(metrics, indent=1, allow_nan=False).encode(),
    }
    manifest = {
        "key": key,
        "stage": stage.name,
        "module": stage.module,
        "config": json.loads(canonical_json(stage.config)),
        "upstream": list(stage.upstream),
        "schema": SCHEMA_VERSION,
        "seconds": seconds,
        "sha256": {name: hashlib.sha256(data).hexdigest() for name, data in files.items()},
    }
    files["manifest.json"] = json.dumps(manifest, indent=1, allow_nan=False).encode()
    directory.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=".writing-", dir=directory.parent))
    try:
        for name, data in files.items():
            (temporary / name).write_bytes(data)
        _put(temporary, directory, key, type(result))
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _put(temporary: Path, directory: Path, key: str, kind: type) -> None:
    """Renames an artifact into place; a damaged one gives way, another run's whole one stays."""
    for attempt in range(_PUT_ATTEMPTS):
        try:
            temporary.replace(directory)
        except OSError:
            if attempt == _PUT_ATTEMPTS - 1 or not directory.is_dir():
                raise
        else:
            return
        try:
            _read(directory, key, kind)
        except _DAMAGE:
            aside = Path(tempfile.mkdtemp(prefix=".replaced-", dir=directory.parent))
            try:
                with suppress(FileNotFoundError):  # another run has just moved it
                    directory.replace(aside / "artifact")
            finally:
                shutil.rmtree(aside, ignore_errors=True)
        else:
            return


def _read(directory: Path, key: str, kind: type[Result]) -> Result:
    """The result in an artifact; raises one of ``_DAMAGE`` if it is not whole."""
    manifest = json.loads((directory / "manifest.json").read_bytes())
    if manifest["key"] != key:
        raise ValueError("its manifest names another key")
    files = {name: (directory / name).read_bytes() for name in manifest["sha256"]}
    for name, data in files.items():
        if hashlib.sha256(data).hexdigest() != manifest["sha256"][name]:
            raise ValueError(f"{name} does not match its hash")
    with np.load(io.BytesIO(files["data.npz"]), allow_pickle=False) as data:
        arrays = {name: data[name] for name in data.files}
    return _decode(kind, json.loads(files["metrics.json"]), arrays)


def _encode(value: Any, path: str, arrays: dict[str, np.ndarray]) -> Any:
    """JSON for a value; its arrays go to ``arrays`` and leave their name behind."""
    if isinstance(value, np.ndarray):
        arrays[path] = value
        return {"array": path}
    if dataclasses.is_dataclass(value):
        return {
            field.name: _encode(getattr(value, field.name), f"{path}.{field.name}", arrays)
            for field in dataclasses.fields(value)
        }
    if isinstance(value, Mapping):
        return {key: _encode(item, f"{path}.{key}", arrays) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_encode(item, f"{path}.{i}", arrays) for i, item in enumerate(value)]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"an artifact cannot hold {type(value).__name__} at {path or 'its top'}")


def _decode(kind: Any, value: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """The inverse of ``_encode`` for a value of type ``kind``."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        if value is None:
            return None
        (kind,) = (argument for argument in arguments if argument is not types.NoneType)
        return _decode(kind, value, arrays)
    if kind is np.ndarray:
        return arrays[value["array"]]
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        names = [field.name for field in dataclasses.fields(kind)]
        return kind(**{name: _decode(hints[name], value[name], arrays) for name in names})
    if origin is dict:
        return {key: _decode(arguments[1], item, arrays) for key, item in value.items()}
    if origin is tuple:
        if arguments[-1] is Ellipsis:
            return tuple(_decode(arguments[0], item, arrays) for item in value)
        return tuple(_decode(k, v, arrays) for k, v in zip(arguments, value, strict=True))
    return kind(value)
