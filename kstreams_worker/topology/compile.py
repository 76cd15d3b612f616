"""Compiles a sub-topology: its steps become Python source, made once, that runs whole batches without a call per step.

`compile_subtopology` generates and compiles the code; `bind` gives it a task's stores. The source is registered with
`linecache`, so a traceback through it shows its lines; `CompiledSubTopology.source` is for people who want to look.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from operator import length_hint
from types import CodeType
from typing import TYPE_CHECKING, Any

from kstreams_worker.errors import KStreamsError, TopologyError
from kstreams_worker.topology import emit_stream, emit_table, nodes
from kstreams_worker.topology.chain import Chain
from kstreams_worker.topology.code import Line, Row, Slot
from kstreams_worker.topology.failures import Explainer, OnUndecodable, decode_column, decode_each
from kstreams_worker.topology.nodes import Node, SourceNode, TableNode
from kstreams_worker.topology.program import TaskProgram
from kstreams_worker.topology.serdes import REFUSE_NULLS, same_bytes
from kstreams_worker.topology.topology import SubTopology
from state.errors import StateError

if TYPE_CHECKING:
    from state.store import KeyValueStore

__all__ = ["CompiledSubTopology", "TaskProgram", "compile_subtopology"]

EMITTERS: Mapping[type[Node], Callable[[Chain, Any, Row], None]] = {
    nodes.AggregateNode: emit_table.emit_aggregate,
    nodes.BranchNode: emit_stream.emit_nothing,
    nodes.CountNode: emit_table.emit_count,
    nodes.FilterNode: emit_stream.emit_filter,
    nodes.FlatMapNode: emit_stream.emit_flat_map,
    nodes.FlatMapValuesNode: emit_stream.emit_flat_map_values,
    nodes.KeyPresentNode: emit_stream.emit_key_present,
    nodes.MapNode: emit_stream.emit_map,
    nodes.MapValuesNode: emit_stream.emit_map_values,
    nodes.MergeNode: emit_stream.emit_nothing,
    nodes.PeekNode: emit_stream.emit_peek,
    nodes.ProcessNode: emit_stream.emit_process,
    nodes.ReduceNode: emit_table.emit_reduce,
    nodes.SelectKeyNode: emit_stream.emit_select_key,
    nodes.SinkNode: emit_stream.emit_sink,
    nodes.SplitNode: emit_stream.emit_split,
    nodes.TableAggregateNode: emit_table.emit_table_aggregate,
    nodes.TableFilterNode: emit_table.emit_table_filter,
    nodes.TableMapValuesNode: emit_table.emit_table_map_values,
    nodes.TableReduceNode: emit_table.emit_table_reduce,
    nodes.TableSelectNode: emit_table.emit_table_select,
    nodes.TableSourceNode: emit_table.emit_table_source,
    nodes.ToStreamNode: emit_stream.emit_to_stream,
}


@dataclass(frozen=True)
class CompiledSubTopology:
    """The compiled code of one sub-topology; shared by all its tasks in a process."""

    subtopology: SubTopology
    source: str
    code: CodeType
    constants: Mapping[str, Any]

    def bind(self, stores: Mapping[str, KeyValueStore], on_undecodable: OnUndecodable) -> TaskProgram:
        """The program of one task. `stores` are its open stores by name, which must keep their `dirty` dict.

        `on_undecodable(batch, index, part, error)` is called for a record whose "key" or "value" does not decode: it
        returns to drop the record, or raises to stop.
        """
        namespace = {**self.constants, "on_undecodable": on_undecodable}
        exec(self.code, namespace)
        return TaskProgram(self.subtopology, stores, namespace["bind"])


def compile_subtopology(sub: SubTopology, application_id: str, *, cached: bool = True) -> CompiledSubTopology:
    """Compiles a sub-topology. `cached` False (a `cache.max.bytes` of 0): tables forward every update at once.

    Raises TopologyError where more steps follow each other than Python can take: some hundreds.
    """
    try:
        return _compile(Chain(sub, application_id, cached, EMITTERS))
    except RecursionError:
        raise TopologyError(f"sub-topology {sub.id} has too many steps in a row: {len(sub.nodes)} in all") from None


def _compile(chain: Chain) -> CompiledSubTopology:
    sub, application_id = chain.subtopology, chain.application_id
    routes = []
    for node in sub.nodes:
        if isinstance(node, SourceNode):
            name = _emit_source(chain, node)
            routes += [f"{topic!r}: {name}" for topic in chain.topics_of(node)]
    flushes = [
        emit_table.emit_flush(chain, node)
        for node in sub.nodes
        if isinstance(node, TableNode) and node.store is not None and node.children and chain.is_cached(node)
    ]
    lines = [
        Line(0, f"# Generated: sub-topology {sub.id} of {application_id}.", None),
        Line(0, "def bind(task):", None),
        Line(1, "clock, cursor = task.clock, task.cursor", None),
        *(Line(1, text, None) for text in chain.setup),
        *(line for function in chain.functions for line in function),
        *(Line(1, text, None) for text in chain.late_setup),
        Line(1, f"return {{{', '.join(routes)}}}, [{', '.join(flushes)}]", None),
    ]
    source = "".join(f"{'    ' * line.level}{line.text}\n" for line in lines)
    filename = f"<sub-topology {sub.id} of {application_id}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    explain = Explainer(filename, [None, *(line.step for line in lines)], (KStreamsError, StateError))
    constants = {
        **chain.constants,
        "decode_column": decode_column,
        "decode_each": decode_each,
        "explain": explain,
        "length_hint": length_hint,
    }
    return CompiledSubTopology(sub, source, compile(source, filename, "exec"), constants)


def _emit_source(chain: Chain, node: SourceNode) -> str:
    """Writes the function that takes a source's batches; returns its name.

    Its loop is written first: only the columns that it turns out to use are decoded or walked. Values are always
    decoded, so that a record that nobody can read is found where it enters; keys only if a step looks at them.
    """
    code = chain.code
    name = code.fresh("source")
    raw_key, raw_value, time = Slot("raw_key"), Slot("raw_value"), Slot("time")
    plain_key, plain_value = node.key.decode is same_bytes, node.value.decode is same_bytes
    key = raw_key if plain_key else Slot("key")
    value = raw_value if plain_value else Slot("value")
    row = Row(key, node.key, {node.key.name: raw_key}, value, {node.value.name: raw_value}, time)
    with code.apart(4) as loop:
        chain.children(node, row)
        if _uses_timers(chain, node):
            with code.nested(f"if {code.use(time)} >= clock.due:"):
                code.line(f"clock.advance({time.name})")
    offered = {"raw_keys": raw_key, "keys": key, "raw_values": raw_value, "values": value, "times": time}
    for column, is_raw in (("keys", plain_key), ("values", plain_value)):
        if is_raw:
            del offered[column]
    columns = {column: slot.name for column, slot in offered.items() if slot.used} or {"raw_values": "raw_value"}
    code.step = node
    with code.apart(2) as body:
        code.line("raw_keys, raw_values, times, kept = batch.keys, batch.values, batch.timestamps_ms, None")
        _emit_decoding(chain, node, key_wanted=key.used)
        for table in _tables_of_all_records(node, node):
            code.line(f"{chain.store_object(table)}.prefetch(raw_keys)")
        first, *others = columns
        code.line(f"position = iter({first})")
        if _uses_timers(chain, node):
            code.line("cursor.enter(batch, position, kept)")
        walked = f"zip({', '.join(['position', *others])})" if others else "position"
        with code.nested("try:"):
            code.line(f"for {', '.join(columns.values())} in {walked}:")
            code.lines(loop or [Line(4, "pass", node)])
        with code.nested("except Exception as error:"):
            code.line(f"index = len({first}) - length_hint(position) - 1")
            code.line("explain.record(error, batch, index if kept is None else kept[index])")
    chain.function(name, ["batch"], body, node)
    return name


def _tables_of_all_records(source: SourceNode, node: Node) -> Iterator[TableNode]:
    """The steps with a store that each of the source's records reaches under the key it came with, but for null keys."""
    for child in node.children:
        if isinstance(child, TableNode):
            if child.store is not None and child.key is not None and child.key.name == source.key.name:
                yield child
        elif isinstance(child, _KEEP_ALL_RECORDS):
            yield from _tables_of_all_records(source, child)


_KEEP_ALL_RECORDS = (nodes.KeyPresentNode, nodes.MapValuesNode, nodes.MergeNode, nodes.PeekNode)


def _emit_decoding(chain: Chain, node: SourceNode, *, key_wanted: bool) -> None:
    """Decodes columns in one pass each; if something does not decode like that, the slow way, record by record."""
    code = chain.code
    key_decoder = chain.decoder(node.key) if key_wanted else None
    value_decoder = chain.decoder(node.value)
    if key_decoder is None and value_decoder is None:
        return
    nulls_expected = any(isinstance(child, nodes.TableSourceNode) for child in node.children)
    code.line("decoded = True")
    with code.nested("try:"):
        for column, serde, decoder in (("keys", node.key, key_decoder), ("values", node.value, value_decoder)):
            if decoder is not None and serde.decode in REFUSE_NULLS and not (nulls_expected and column == "values"):
                code.line(f"{column} = list(map({decoder}, raw_{column}))")
            elif decoder is not None:
                code.line(f"{column} = decode_column({decoder}, raw_{column})")
    with code.nested("except Exception:"):
        code.line("decoded = False")
    with code.nested("if not decoded:"):
        keys, values = "keys" if key_decoder else "_", "values" if value_decoder else "_"
        code.line(
            f"raw_keys, {keys}, raw_values, {values}, times, kept = "
            f"decode_each(batch, {key_decoder}, {value_decoder}, on_undecodable)"
        )


def _uses_timers(chain: Chain, node: SourceNode) -> bool:
    """Whether processors are part of this sub-topology: only they ask where a record stands, or set timers."""
    return any(isinstance(other, nodes.ProcessNode) for other in chain.subtopology.nodes)
