"""What to do when a record cannot be decoded or a step raises: find the record and the step, without a cost per record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, NoReturn

from kstreams_worker.errors import KStreamsError, RecordError
from kstreams_worker.topology.nodes import Node
from kstreams_worker.topology.records import RecordBatch

Decode = Callable[[bytes], Any]
OnUndecodable = Callable[[RecordBatch, int, str, Exception], None]

Columns = tuple[
    Sequence[bytes | None], Sequence[Any], Sequence[bytes | None], Sequence[Any], Sequence[int], list[int] | None
]


class ForwardError(KStreamsError):
    """A step failed on a table's newest value, which is passed on at commit and belongs to no single record."""


def decode_column(decode: Decode, column: Sequence[bytes | None]) -> list[Any]:
    """Decodes a column that may hold nulls; raises what `decode` raises."""
    return [None if data is None else decode(data) for data in column]


def decode_each(
    batch: RecordBatch, decode_key: Decode | None, decode_value: Decode | None, on_undecodable: OnUndecodable
) -> Columns:
    """The slow way through a batch in which something did not decode at once: a null, or a record that nobody can read.

    Returns raw keys, keys, raw values, values, timestamps, and the indices in the batch of the records kept, or None if
    all were. `on_undecodable` is called for each record that does not decode: it returns to drop the record.
    """
    try:
        raw_keys, raw_values = batch.keys, batch.values
        keys = raw_keys if decode_key is None else decode_column(decode_key, raw_keys)
        values = raw_values if decode_value is None else decode_column(decode_value, raw_values)
    except Exception:
        return _decode_each(batch, decode_key, decode_value, on_undecodable)
    return raw_keys, keys, raw_values, values, batch.timestamps_ms, None


def _decode_each(
    batch: RecordBatch, decode_key: Decode | None, decode_value: Decode | None, on_undecodable: OnUndecodable
) -> Columns:
    kept: list[int] = []
    keys: list[Any] = []
    values: list[Any] = []
    for index, (raw_key, raw_value) in enumerate(zip(batch.keys, batch.values, strict=True)):
        part = "key"
        try:
            key = raw_key if raw_key is None or decode_key is None else decode_key(raw_key)
            part = "value"
            value = raw_value if raw_value is None or decode_value is None else decode_value(raw_value)
        except Exception as error:
            problem = error
        else:
            kept.append(index)
            keys.append(key)
            values.append(value)
            continue
        on_undecodable(batch, index, part, problem)
    return (
        [batch.keys[index] for index in kept],
        keys,
        [batch.values[index] for index in kept],
        values,
        [batch.timestamps_ms[index] for index in kept],
        kept if len(kept) < len(batch) else None,
    )


class Explainer:
    """Turns an exception out of generated code into one that names the record and the step.

    `steps` gives the step of each generated line; the innermost generated line in the traceback is the one that failed.
    Errors of the library itself, such as a store's, pass unchanged.
    """

    def __init__(self, filename: str, steps: Sequence[Node | None], own_errors: tuple[type[Exception], ...]) -> None:
        self._filename = filename
        self._steps = steps
        self._own_errors = own_errors

    def record(self, error: Exception, batch: RecordBatch, index: int) -> NoReturn:
        """Raises RecordError for the record at `index` of the batch, from `error`."""
        if isinstance(error, self._own_errors):
            raise error
        offset = batch.offsets[index]
        raise RecordError(self._sentence(error), batch.topic, batch.partition, offset) from error

    def forward(self, error: Exception, store: str, raw_key: bytes | None) -> NoReturn:
        """Raises ForwardError for a key of a table that was being passed on, from `error`."""
        if isinstance(error, self._own_errors):
            raise error
        raise ForwardError(f"store {store}, key {raw_key!r}: {self._sentence(error)}") from error

    def _sentence(self, error: Exception) -> str:
        step = self._step(error.__traceback__)
        where = f"{step.name} ({step.location})" if step else "the topology"
        return f"{where} raised {type(error).__name__}: {error}"

    def _step(self, traceback: TracebackType | None) -> Node | None:
        line = 0
        while traceback is not None:
            if traceback.tb_frame.f_code.co_filename == self._filename:
                line = traceback.tb_lineno
            traceback = traceback.tb_next
        return self._steps[line] if line < len(self._steps) else None
