"""The code of steps on streams. Each emitter writes a node's own lines and has its children write theirs."""

from __future__ import annotations

from kstreams_worker.topology.chain import Chain
from kstreams_worker.topology.code import Row, Slot
from kstreams_worker.topology.nodes import (
    BranchNode,
    FilterNode,
    FlatMapNode,
    FlatMapValuesNode,
    KeyPresentNode,
    MapNode,
    MapValuesNode,
    MergeNode,
    PeekNode,
    ProcessNode,
    SelectKeyNode,
    SinkNode,
    SplitNode,
    ToStreamNode,
)


def emit_filter(chain: Chain, node: FilterNode, row: Row) -> None:
    step = chain.constant("step", node.predicate)
    negation = "not " if node.negated else ""
    with chain.code.nested(f"if {negation}{step}({chain.key(row)}, {chain.value(row)}):"):
        chain.children(node, row.copy())


def emit_key_present(chain: Chain, node: KeyPresentNode, row: Row) -> None:
    if not row.key_may_be_null:
        chain.children(node, row)
        return
    with chain.code.nested(f"if {chain.any_key(row)} is not None:"):
        inner = row.copy()
        inner.key_may_be_null = False
        chain.children(node, inner)


def emit_map(chain: Chain, node: MapNode, row: Row) -> None:
    step = chain.constant("step", node.mapper)
    key, value = chain.code.fresh("key"), chain.code.fresh("value")
    chain.code.line(f"{key}, {value} = {step}({chain.key(row)}, {chain.value(row)})")
    chain.children(node, row.with_key(key).with_value(value))


def emit_flat_map(chain: Chain, node: FlatMapNode, row: Row) -> None:
    step = chain.constant("step", node.mapper)
    key, value = chain.code.fresh("key"), chain.code.fresh("value")
    with chain.code.nested(f"for {key}, {value} in {step}({chain.key(row)}, {chain.value(row)}):"):
        chain.children(node, row.with_key(key).with_value(value))


def mapped_value(chain: Chain, node: MapValuesNode | FlatMapValuesNode, row: Row) -> str:
    step = chain.constant("step", node.mapper)
    return f"{step}({chain.key(row)}, {chain.value(row)})" if node.takes_key else f"{step}({chain.value(row)})"


def emit_map_values(chain: Chain, node: MapValuesNode, row: Row) -> None:
    call = mapped_value(chain, node, row)
    value = chain.code.fresh("value")
    chain.code.line(f"{value} = {call}")
    chain.children(node, row.with_value(value))


def emit_flat_map_values(chain: Chain, node: FlatMapValuesNode, row: Row) -> None:
    call = mapped_value(chain, node, row)
    value = chain.code.fresh("value")
    with chain.code.nested(f"for {value} in {call}:"):
        chain.children(node, row.with_value(value))


def emit_select_key(chain: Chain, node: SelectKeyNode, row: Row) -> None:
    step = chain.constant("step", node.selector)
    key = chain.code.fresh("key")
    chain.code.line(f"{key} = {step}({chain.key(row)}, {chain.value(row)})")
    chain.children(node, row.with_key(key))


def emit_peek(chain: Chain, node: PeekNode, row: Row) -> None:
    chain.code.line(f"{chain.constant('step', node.action)}({chain.key(row)}, {chain.value(row)})")
    chain.children(node, row)


def emit_nothing(chain: Chain, node: MergeNode | BranchNode, row: Row) -> None:
    chain.children(node, row)


def emit_to_stream(chain: Chain, node: ToStreamNode, row: Row) -> None:
    inner = row.copy()
    inner.old = None
    chain.children(node, inner)


def emit_split(chain: Chain, node: SplitNode, row: Row) -> None:
    key, value = chain.key(row), chain.value(row)
    word = "if"
    for predicate, branch in zip(node.predicates, node.children, strict=True):
        test = None if predicate is None else f"{chain.constant('step', predicate)}({key}, {value})"
        head = f"{word} {test}:" if test else "else:"
        with chain.code.nested(head):
            chain.visit(branch, row.copy())
        word = "elif"


def emit_sink(chain: Chain, node: SinkNode, row: Row) -> None:
    topic = node.repartition.topic(chain.application_id) if node.repartition else node.topic
    append = chain.rows(topic)
    key, value, time = chain.raw_key(row, node.key), chain.raw_value(row, node.value), chain.time(row)
    chain.code.line(f"{append}(({key}, {value}, {time}))")


def emit_process(chain: Chain, node: ProcessNode, row: Row) -> None:
    """The processor is called from here; what it forwards comes back through a function with the steps after it."""
    code = chain.code
    context, process, forward = code.fresh("context"), code.fresh("process"), "None"
    if node.children:
        forward = code.fresh("forward")
        with code.apart(2) as body:
            inner = Row(Slot("key"), None, {}, Slot("value"), {}, Slot("time"))
            chain.children(node, inner)
        chain.function(forward, ["key", "value", "time"], body, node)
    reference = chain.constant("node", node)
    chain.late_setup.append(f"{context}, {process} = task.processor({reference}, {forward})")
    code.line(f"{context}.timestamp_ms = {chain.time(row)}")
    arguments = [chain.key(row), chain.value(row)]
    if not node.is_factory:
        arguments.append(context)
    code.line(f"{process}({', '.join(arguments)})")
