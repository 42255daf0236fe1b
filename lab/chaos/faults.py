"""What is done to servers, to the network between them and their clients, and by clients that mean no good. A fault
begins, lasts and is undone; each is one of KINDS."""
import random
import signal
import time

import hostile


class Scene:
    """The replicas, the proxies before them, and the random numbers. The first replica is never ended, so that what it
    holds of memory can be followed; the second one's clock can be stepped; the last one's log is full."""

    def __init__(self, replicas, proxies, seed):
        self.replicas, self.proxies, self.random = replicas, proxies, random.Random(seed)
        self.problems = []

    def some(self):
        return self.random.randrange(len(self.replicas))

    def mortal(self):
        return self.random.randrange(1, len(self.replicas))


def _network(order, *arguments):
    def begin(scene, seconds):
        index = scene.some()
        scene.proxies.order(index, order, *[argument(scene.random) for argument in arguments])
        return lambda: scene.proxies.order(index, "pass")
    return begin


def _at_once(order, *arguments):
    def begin(scene, seconds):
        scene.proxies.order(scene.some(), order, *[argument(scene.random) for argument in arguments])
        return lambda: None
    return begin


def partition_all(scene, seconds):
    for index in range(len(scene.replicas)):
        scene.proxies.order(index, "partition")
    def undo():
        for index in range(len(scene.replicas)):
            scene.proxies.order(index, "pass")
    return undo


def stop(scene, seconds):
    replica = scene.replicas[scene.some()]
    replica.signal(signal.SIGSTOP)
    return lambda: replica.signal(signal.SIGCONT)


def kill(scene, seconds):
    replica = scene.replicas[scene.mortal()]
    if not replica.is_running():
        return lambda: None  # ended already; that fault starts it again
    replica.kill()
    return lambda: _start_again(scene, replica)


def terminate(scene, seconds):
    replica = scene.replicas[scene.mortal()]
    if not replica.is_running():
        return lambda: None
    begun = time.monotonic()
    code = replica.end()
    if code != 0:
        scene.problems.append(f"a replica drained with exit code {code} after {time.monotonic() - begun:.1f} s")
    return lambda: _start_again(scene, replica)


def _start_again(scene, replica):
    replica.start()
    if not replica.wait_ready(120):
        scene.problems.append("a replica that was started again did not come to be ready")


def step_clock(scene, seconds):
    replica = scene.replicas[1]
    replica.step_clock(scene.random.choice([-86400, -3600, -30, 30, 3600, 86400]))
    return lambda: replica.step_clock(0)


def _hostile(kind):
    def begin(scene, seconds):
        # These go straight to the server: the proxy would hold back what they are about.
        hostile.start(kind, scene.replicas[scene.some()].port, seconds, random.Random(scene.random.random()))
        return lambda: None
    return begin


KINDS = {
    "delay": _network("delay", lambda draw: draw.randrange(5, 400)),
    "throttle": _network("throttle", lambda draw: draw.randrange(2000, 200000)),
    "partition": _network("partition"),
    "refuse": _network("refuse"),
    "partition_all": partition_all,
    "reset": _at_once("reset"),
    "cut": _at_once("cut", lambda draw: draw.randrange(1, 20000)),
    "half_up": _at_once("half", lambda draw: "up"),
    "half_down": _at_once("half", lambda draw: "down"),
    "stop": stop,
    "kill": kill,
    "terminate": terminate,
    "step_clock": step_clock,
    **{kind.__name__: _hostile(kind) for kind in hostile.KINDS},
}


class Schedule:
    """One fault after the other, all kinds in a random order before any comes again; two at a time at most."""

    def __init__(self, scene, kinds=None):
        self._scene, self._kinds = scene, list(kinds or KINDS)
        self._left = []
        self._under_way = []  # (when it is over, undo)
        self._next = 0
        self.count = {}

    def go_on(self):
        """Called often; begins and undoes what is due."""
        now = time.monotonic()
        for end, undo in [one for one in self._under_way if one[0] <= now]:
            self._under_way.remove((end, undo))
            undo()
        if now >= self._next and len(self._under_way) < 2:
            self._begin()

    def _begin(self):
        draw = self._scene.random
        if not self._left:
            self._left = draw.sample(self._kinds, len(self._kinds))
        kind = self._left.pop()
        seconds = draw.uniform(0.2, 5)
        undo = KINDS[kind](self._scene, seconds)
        self.count[kind] = self.count.get(kind, 0) + 1
        now = time.monotonic()
        self._under_way.append((now + seconds, undo))
        self._next = now + draw.uniform(0.3, 2.5)

    def undo_all(self):
        for _, undo in self._under_way:
            undo()
        self._under_way.clear()
