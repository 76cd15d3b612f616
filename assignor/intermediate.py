"""What is safe now: who runs each task after this round, given who runs or has it at this moment.

0. A learner whose task is as well placed where it is has nothing to learn for any more: it goes.
1. A task that somebody processes stays there. It moves only through a learner, or it is taken away now and given in the next
   round: a stateless task of a leaving member, and any task of a member whose patience to leave has ended.
2. A task that its owner has suspended goes to the learner that is ready; else back to the owner; past the owner's
   patience to the learner, ready or not. A stateless one was taken away in the round before: it is handed on.
3. A task in nobody's hands is given out at once: to its learner, to the freshest copy, to an instance with room.

Preference among takers: ready learner, previous owner, unready learner, freshest copy, most room.
"""

from __future__ import annotations

from assignor.holdings import Copy
from assignor.model import MoveCase, TaskId
from assignor.plan import Plan
from assignor.roster import Worker
from assignor.target import Key, Loads

NEAR_RECORDS = 10_000
"""The last owner's own copy is as good as any that is ready if it misses no more than this (acceptable.recovery.lag's
default). So a task that was taken away to go to another worker of its instance stays on that instance."""


def settle(plan: Plan) -> None:
    """Decide every task's owner after this round, before anything is moved for the sake of balance."""
    _dismiss_learners(plan)
    homeless = _settle_held(plan)
    destinations: dict[bool, list[Worker]] = {True: [], False: []}
    tasks = plan.holdings.tasks
    for task, owner in plan.owner.items():
        destination = plan.learner.get(task, owner)
        if destination.instance.receives:
            destinations[tasks[task]].append(destination)
    for task, learner in plan.learner.items():
        if task not in plan.owner:
            destinations[True].append(learner)
    plan.stateful = Loads(plan.roster, destinations[True])
    plan.stateless = Loads(plan.roster, destinations[False])
    plan.stateful.beside, plan.stateless.beside = plan.stateless, plan.stateful
    for task, learner in plan.learner.items():
        if plan.owner.get(task) is not learner:
            plan.stateful.incoming[learner.instance.rank] += 1
    _settle_homeless(plan, homeless)


def _dismiss_learners(plan: Plan) -> None:
    """Drop learners whose move, undone, would leave the balance no worse: those of an order to leave that was taken back.

    A learner that was planned for balance is none of them, as such moves make it better. One that takes over in this very
    round has only to be no worse off than its owner.
    """
    holders, suspended, learners = plan.holdings.holders, plan.holdings.suspended, plan.holdings.learners
    staying = [task for task in sorted(learners) if task in holders and holders[task].instance.receives]
    if not staying:
        return
    stateful = plan.holdings.stateful
    loads = Loads(plan.roster, [to for task, to in {**holders, **learners}.items() if task in stateful])
    for task in staying:
        learner, holder = learners[task], holders[task]
        takes_over = task in suspended and learner.said.learners[task].ready
        if loads.gain(learner.instance, holder.instance) >= (1 if takes_over else 0):
            loads.remove(learner)
            loads.add(holder)
            del learners[task]


def _settle_held(plan: Plan) -> list[TaskId]:
    """All tasks that have a holder or a learner. Returns the others, whose place depends on the load of these."""
    running, suspended, learners = plan.holdings.running, plan.holdings.suspended, plan.holdings.learners
    plan.owner.update(running)
    plan.case.update(dict.fromkeys(running, MoveCase.KEEP))
    for task, holder in running.items():
        if task in learners or not holder.instance.receives:
            _settle_running(plan, task, holder)
    homeless: list[TaskId] = []
    for task in plan.holdings.ordered if len(running) < len(plan.holdings.ordered) else ():
        if task in running:
            continue
        if task in suspended:
            if not _settle_suspended(plan, task, suspended[task]):
                homeless.append(task)
        elif task in plan.holdings.blocked:
            plan.withhold(task, MoveCase.WAIT, "a member that runs another topology must stop it first")
        elif task in learners:
            plan.give(task, learners[task], MoveCase.TAKE_OVER, "its owner is gone, its learner takes over")
        else:
            homeless.append(task)
    return homeless


def _settle_running(plan: Plan, task: TaskId, holder: Worker) -> None:
    """A running task that somebody learns, or whose owner leaves."""
    learner = plan.holdings.learners.get(task)
    if learner is not None:
        plan.case[task] = MoveCase.LEARN
        plan.learner[task] = learner
        if learner.said.learners[task].ready:
            # One more round, in which its owner has it suspended.
            plan.rejoin.add(holder.rank)
            plan.reason[task] = "its learner is ready, but its owner has not suspended it"
    if not holder.instance.receives and plan.roster.receiving:
        if holder.expired:
            plan.take_away(task, "its owner's patience to leave has ended")
        elif not plan.holdings.tasks[task]:
            plan.take_away(task, "its owner leaves, and it has no state to be learned first")


def _settle_suspended(plan: Plan, task: TaskId, holder: Worker) -> bool:
    """Returns whether the task has a place: a stateless one has none yet, nor has one whose owner's patience has ended."""
    learner = plan.holdings.learners.get(task)
    if not plan.roster.receiving:
        plan.give(task, holder, MoveCase.KEEP, "no other member may take it")
    elif learner is None:
        if holder.expired or not plan.holdings.tasks[task]:
            return False
        plan.give(task, holder, MoveCase.KEEP)
    elif learner.said.learners[task].ready:
        plan.give(task, learner, MoveCase.GRANT, "its learner is ready")
    elif holder.expired:
        plan.give(task, learner, MoveCase.FORCE, "its owner's patience to leave has ended")
    else:
        plan.learner[task] = learner
        plan.give(task, holder, MoveCase.LEARN)
    return True


def _settle_homeless(plan: Plan, homeless: list[TaskId]) -> None:
    """Tasks that nobody runs or learns: first those of which there are copies, then the rest."""
    if not homeless:
        return
    if not plan.roster.receiving:
        for task in homeless:
            plan.withhold(task, MoveCase.WAIT, "no member may take it: all of them leave")
        return
    stateful_tasks = plan.holdings.stateful
    copies = plan.holdings.copies(stateful_tasks.intersection(homeless))
    for task in homeless:
        if task in copies:
            _give_to_copy(plan, task, copies[task])
    for stateful in (True, False):
        rest = [task for task in homeless if (task in stateful_tasks) is stateful and task not in copies]
        _give_to_room(plan, rest, plan.loads(stateful))


def _give_to_copy(plan: Plan, task: TaskId, copies: list[Copy]) -> None:
    loads = plan.stateful
    remembered = plan.snapshot.memory.owners.get(task)

    def preference(copy: Copy) -> tuple[int, bool, Key]:
        own = remembered is not None and copy.instance.identity == remembered.instance
        missing = 0 if own and copy.state.lag <= NEAR_RECORDS else copy.staleness()
        return missing, not own, loads.instance_room(copy.instance)

    best = min(copies, key=preference)
    worker = best.worker or plan.worker_on(best.instance, task)
    _place(plan, task, worker, "has the best copy of its state" + ("" if best.worker else ", on disk"))


def _give_to_room(plan: Plan, tasks: list[TaskId], loads: Loads) -> None:
    """Tasks of one kind that nobody has a claim to; only on equal terms they go back to a worker that has them suspended."""
    suspended = plan.holdings.suspended
    anybodys: list[TaskId] = []
    room = loads.roomiest(plan.roster.receiving)
    for task in tasks:
        holder = suspended.get(task)
        if holder is None or not holder.instance.receives:
            anybodys.append(task)
            continue
        instance = room.peek()
        taker = loads.roomiest_worker(instance)
        if loads.instance_room(holder.instance)[0] <= loads.instance_room(instance)[0]:
            fellow = loads.roomiest_worker(holder.instance)
            taker = holder if loads.of_worker[holder.rank] <= loads.of_worker[fellow.rank] else fellow
        _place(plan, task, taker, "most room")
    for task, instance in zip(anybodys, loads.seats(len(anybodys)), strict=True):
        _place(plan, task, plan.worker_on(instance, task), "most room")


def _place(plan: Plan, task: TaskId, taker: Worker, reason: str) -> None:
    """Give a task that nobody runs, under the name that its past deserves."""
    holder = plan.holdings.suspended.get(task)
    if holder is taker:
        plan.give(task, taker, MoveCase.KEEP)
    elif holder is not None:
        plan.give(task, taker, MoveCase.FORCE if holder.expired else MoveCase.HAND_ON, reason)
    else:
        remembered = plan.snapshot.memory.owners.get(task)
        case = MoveCase.HAND_ON if remembered in plan.present else MoveCase.TAKE_OVER
        if remembered is None:
            case = MoveCase.START
        plan.give(task, taker, case, reason)
    plan.loads(plan.holdings.tasks[task]).add(taker)
