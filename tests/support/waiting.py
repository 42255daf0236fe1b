"""How tests wait: in no other way for what tells them nothing when it happens."""
import time


def eventually(condition, seconds=30, step=0.02):
    """What `condition` returns once that is true, looked at now, every `step` and once more at the end; what it
    returned last, which is false, when it does not come to hold within the time. That is for what must come, and so
    long that only a fault exceeds it."""
    until = time.monotonic() + seconds
    while True:
        last = time.monotonic() >= until
        found = condition()
        if found or last:
            return found
        time.sleep(step)


def let_pass(seconds):
    """Time that is the test's own doing, such as a client that sends a byte every so often, a paced load, how long
    something is measured. No condition could take its place; where one can, wait for that."""
    time.sleep(max(0, seconds))
