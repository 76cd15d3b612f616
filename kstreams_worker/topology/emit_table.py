"""The code of steps on tables and of aggregations: one dict look-up per record, and the rest at flush.

The hot path of every step with a store is the same. `dirty` maps raw keys to `[value, timestamp, ...]`; a key that is not in
it is brought in by `load`. The entry is then changed in place.
"""

from __future__ import annotations

from collections.abc import Callable

from kstreams_worker.topology.chain import Chain
from kstreams_worker.topology.code import Line, Row, Slot
from kstreams_worker.topology.nodes import (
    AggregateNode,
    CountNode,
    ReduceNode,
    TableAggregateNode,
    TableFilterNode,
    TableMapValuesNode,
    TableNode,
    TableReduceNode,
    TableSelectNode,
    TableSourceNode,
)
from kstreams_worker.topology.table_runtime import forget_committed, regrouping, snapshot_of


class _Entry:
    """The code that fetches a key's entry and changes it. `held` is the variable of the value before the change."""

    def __init__(self, chain: Chain, node: TableNode, row: Row) -> None:
        assert node.key is not None
        self._chain, self._node, self._row = chain, node, row
        code = chain.code
        self._raw_key = chain.raw_key(row, node.key)
        self._time = chain.time(row)
        self._old: str | None = None
        dirty, load, before = chain.store(node)
        self.name, self.held = code.fresh("entry"), code.fresh("held")
        # Not `try: dirty[key]`: right after a commit most keys are not there, and an exception costs more than the test.
        code.line(f"{self.name} = {dirty}_get({self._raw_key})")
        with code.nested(f"if {self.name} is None:"):
            # What `load` does for a cached key, without the call.
            code.line(f"{self.name} = {dirty}_cached({self._raw_key})")
            with code.nested(f"if {self.name} is None:"):
                code.line(f"{self.name} = {load}({self._raw_key})")
            with code.nested("else:"):
                code.line(f"{dirty}[{self._raw_key}] = {self.name}")
            if node.keeps_old and chain.is_cached(node):
                code.line(f"{before}[{self._raw_key}] = {snapshot(chain, node, f'{self.name}[0]')}")
        code.line(f"{self.held} = {self.name}[0]")
        if node.keeps_old and not chain.is_cached(node):
            self._old = code.fresh("old")
            code.line(f"{self._old} = {snapshot(chain, node, self.held)}")

    def replace(self, value: str) -> None:
        """The table's value is the record's."""
        self._chain.code.line(f"{self.name}[0] = {value}")
        self._chain.code.line(f"{self.name}[1] = {self._time}")

    def fold_in(self, first: str, following: str) -> None:
        """The aggregate is `first` where there was none, else `following`; its time is the largest of its records."""
        code = self._chain.code
        with code.nested(f"if {self.held} is None:"):
            self.replace(first)
        with code.nested("else:"):
            code.line(f"{self.name}[0] = {following}")
            with code.nested(f"if {self._time} > {self.name}[1]:"):
                code.line(f"{self.name}[1] = {self._time}")

    def replace_aggregate(self) -> None:
        """The aggregate is what `held` was made into; its time is the largest of its records."""
        code = self._chain.code
        code.line(f"{self.name}[0] = {self.held}")
        with code.nested(f"if {self._time} > {self.name}[1]:"):
            code.line(f"{self.name}[1] = {self._time}")

    def forward(self, *, value_may_be_null: bool = True) -> None:
        """Passes the new value on now; a cached step leaves that to flush."""
        chain, node = self._chain, self._node
        assert node.key is not None
        if chain.is_cached(node) or not node.children:
            return
        value, time = chain.code.fresh("value"), chain.code.fresh("time")
        chain.code.line(f"{value}, {time}, _ = {self.name}")
        row = table_row(node, self._raw_key, value, time, self._old)
        row.key = self._row.key
        row.value_may_be_null = value_may_be_null
        chain.children(node, row)


def snapshot(chain: Chain, node: TableNode, expression: str) -> str:
    """Code for a value that later changes in place do not reach."""
    copy = snapshot_of(node)
    return expression if copy is None else f"{chain.constant('snapshot', copy)}({expression})"


def table_row(node: TableNode, raw_key: str, value: str, time: str, old: str | None) -> Row:
    """A table's newest value, on its way downstream."""
    assert node.key is not None
    return Row(
        key=None,
        key_serde=node.key,
        raw_keys={node.key.name: Slot(raw_key)},
        value=Slot(value),
        raw_values={},
        time=Slot(time),
        old=Slot(old) if old else None,
        key_may_be_null=False,
    )


def emit_flush(chain: Chain, node: TableNode) -> str:
    """Writes the function that stages a cached step's store and passes on what changed; returns its name.

    The staged rows hold the values as the changelog gets them. So a value is encoded once where others want it in the same
    form, and decoded values are walked only where a step looks at them.
    """
    assert node.store is not None and node.value is not None
    code, name = chain.code, chain.code.fresh("flush")
    dirty, _, before = chain.store(node)
    store = chain.store_object(node)
    code.step = node
    with code.apart(4) as loop:
        row = table_row(node, "raw_key", "value", "time", "old" if node.keeps_old else None)
        row.raw_values = {node.value.name: Slot("raw_value")}
        value, raw_value = row.value, row.raw_values[node.value.name]
        row.value_may_be_null = not isinstance(node, CountNode)
        if node.keeps_old:
            code.line(f"old = {before}.get(raw_key)")
            code.line(f"{before}[raw_key] = {snapshot(chain, node, code.use(value))}")
        chain.children(node, row)
    code.step = node
    with code.apart(2) as body:
        if node.keeps_old:
            code.line(f"{chain.constant('forget_committed', forget_committed)}({before}, {dirty})")
        code.line(f"rows = {store}.stage()")
        if all(line.text.endswith(_WHOLE_ROW) for line in loop):
            for line in loop:
                code.line(line.text.replace("append_", "rows_").replace(_WHOLE_ROW, ".extend(rows)"))
        else:
            code.line("raw_key = None")
            with code.nested("try:"):
                code.line(_flush_loop(store, decoded=value.used, encoded=raw_value.used))
                if value.used and raw_value.used:
                    code.lines([Line(4, f"value = {store}.staged[raw_key][0]", node)])
                code.lines(loop)
            with code.nested("except Exception as error:"):
                code.line(f"explain.forward(error, {node.store!r}, raw_key)")
    chain.function(name, [], body, node)
    return name


_WHOLE_ROW = "((raw_key, raw_value, time))"
"""How a line ends that puts out a staged row as it is."""


def _flush_loop(store: str, *, decoded: bool, encoded: bool) -> str:
    if decoded and not encoded:
        return f"for raw_key, (value, time, _) in {store}.staged.items():"
    return "for raw_key, raw_value, time in rows:"


def emit_count(chain: Chain, node: CountNode, row: Row) -> None:
    condition, row = _present(chain, node, row)
    with chain.code.nested(condition):
        entry = _Entry(chain, node, row)
        entry.fold_in("1", f"{entry.held} + 1")
        entry.forward(value_may_be_null=False)


def emit_reduce(chain: Chain, node: ReduceNode, row: Row) -> None:
    step = chain.constant("step", node.reducer)
    condition, row = _present(chain, node, row)
    with chain.code.nested(condition):
        value = chain.value(row)
        entry = _Entry(chain, node, row)
        entry.fold_in(value, f"{step}({entry.held}, {value})")
        entry.forward()


def emit_aggregate(chain: Chain, node: AggregateNode, row: Row) -> None:
    step, initial = chain.constant("step", node.aggregator), chain.constant("initial", node.initializer)
    condition, row = _present(chain, node, row)
    with chain.code.nested(condition):
        key, value = chain.key(row), chain.value(row)
        entry = _Entry(chain, node, row)
        entry.fold_in(f"{step}({key}, {value}, {initial}())", f"{step}({key}, {value}, {entry.held})")
        entry.forward()


def emit_table_source(chain: Chain, node: TableSourceNode, row: Row) -> None:
    with chain.code.nested(f"if {chain.any_key(row)} is not None:"):
        row = row.copy()
        row.key_may_be_null = False
        if node.store is None:
            chain.children(node, row)
            return
        entry = _Entry(chain, node, row)
        entry.replace(chain.value(row))
        entry.forward()


def emit_table_filter(chain: Chain, node: TableFilterNode, row: Row) -> None:
    step = chain.constant("step", node.predicate)
    key = chain.key(row)
    negation = "not " if node.negated else ""

    def filtered(variable: str) -> str:
        return f"{variable} if {variable} is not None and {negation}{step}({key}, {variable}) else None"

    value = chain.code.fresh("value")
    chain.code.line(f"{value} = {filtered(chain.value(row))}")
    old = _derived_old(chain, node, row, filtered)
    _forward_derived(chain, node, row.with_value(value), old)


def emit_table_map_values(chain: Chain, node: TableMapValuesNode, row: Row) -> None:
    step = chain.constant("step", node.mapper)
    key = f"{chain.key(row)}, " if node.takes_key else ""

    def mapped(variable: str) -> str:
        return f"None if {variable} is None else {step}({key}{variable})"

    value = chain.code.fresh("value")
    chain.code.line(f"{value} = {mapped(chain.value(row))}")
    old = _derived_old(chain, node, row, mapped)
    _forward_derived(chain, node, row.with_value(value), old)


def emit_table_select(chain: Chain, node: TableSelectNode, row: Row) -> None:
    regroup = chain.constant("regroup", regrouping(node.selector))
    key, value = chain.code.fresh("key"), chain.code.fresh("value")
    old = "None" if row.old is None else chain.code.use(row.old)
    with chain.code.nested(f"for {key}, {value} in {regroup}({chain.key(row)}, {chain.value(row)}, {old}):"):
        inner = row.with_key(key).with_value(value, may_be_null=False)
        inner.key_may_be_null = False
        inner.old = None
        chain.children(node, inner)


def emit_table_aggregate(chain: Chain, node: TableAggregateNode, row: Row) -> None:
    add, subtract = chain.constant("add", node.adder), chain.constant("subtract", node.subtractor)
    initial = chain.constant("initial", node.initializer)
    condition, row = _present(chain, node, row)
    with chain.code.nested(condition):
        key = chain.key(row)
        _emit_group_change(
            chain,
            node,
            row,
            lambda held, old: f"{subtract}({key}, {old}, {held})",
            lambda held, new: f"{add}({key}, {new}, {initial}() if {held} is None else {held})",
        )


def emit_table_reduce(chain: Chain, node: TableReduceNode, row: Row) -> None:
    add, subtract = chain.constant("add", node.adder), chain.constant("subtract", node.subtractor)
    condition, row = _present(chain, node, row)
    with chain.code.nested(condition):
        _emit_group_change(
            chain,
            node,
            row,
            lambda held, old: f"{subtract}({held}, {old})",
            lambda held, new: f"{new} if {held} is None else {add}({held}, {new})",
        )


def _emit_group_change(
    chain: Chain, node: TableNode, row: Row, subtracted: Callable[[str, str], str], added: Callable[[str, str], str]
) -> None:
    """A group's row left, came, or changed: the record's value is `(new, old)`. The old one goes before the new comes."""
    code = chain.code
    new, old = code.fresh("new"), code.fresh("old")
    code.line(f"{new}, {old} = {chain.value(row)}")
    entry = _Entry(chain, node, row)
    with code.nested(f"if {old} is not None and {entry.held} is not None:"):
        code.line(f"{entry.held} = {subtracted(entry.held, old)}")
    with code.nested(f"if {new} is not None:"):
        code.line(f"{entry.held} = {added(entry.held, new)}")
    entry.replace_aggregate()
    entry.forward()


def _derived_old(chain: Chain, node: TableNode, row: Row, derive: Callable[[str], str]) -> str | None:
    """What the old value was after this step; a step with a store knows its own."""
    if row.old is None or node.store is not None:
        return None
    old = chain.code.fresh("old")
    chain.code.line(f"{old} = {derive(chain.code.use(row.old))}")
    return old


def _forward_derived(chain: Chain, node: TableNode, row: Row, old: str | None) -> None:
    """Passes on a value computed from another table's, by way of the step's own store if it has one.

    A value that is gone is passed on as None, as it may have been there before; where the old value is known, only if so.
    """
    if node.store is not None:
        entry = _Entry(chain, node, row)
        entry.replace(chain.value(row))
        entry.forward()
    elif old is None:
        chain.children(node, row)
    else:
        with chain.code.nested(f"if {chain.value(row)} is not None or {old} is not None:"):
            inner = row.copy()
            inner.old = Slot(old)
            chain.children(node, inner)


def _present(chain: Chain, node: TableNode, row: Row) -> tuple[str, Row]:
    """The condition under which an aggregation takes a record, and the record under that condition."""
    conditions = []
    if row.key_may_be_null:
        conditions.append(f"{chain.any_key(row)} is not None")
    if row.value_may_be_null:
        conditions.append(f"{chain.value(row)} is not None")
    row = row.copy()
    row.key_may_be_null = row.value_may_be_null = False
    return f"if {' and '.join(conditions) or 'True'}:", row
