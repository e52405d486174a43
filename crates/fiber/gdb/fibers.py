"""Shows the fibers of rowlock-fiber in gdb, in a stopped process or in a core file.

    (gdb) source fibers.py
    (gdb) fibers                what each fiber is doing
    (gdb) fiber 3               backtrace, frame, info locals ... now refer to fiber 3
    (gdb) fiber off             ... and to the thread again
    (gdb) fiber apply all bt    the backtraces of all fibers that have one

The process is not changed, nor are its registers. The program may be optimized, and needs no
description of its types.
"""

import re
import struct

import gdb
import gdb.unwinder

FREE, UNSTARTED, READY, RUNNING, BLOCKED, UNWINDING, ENDED = range(7)
DOING = ["", "has not started", "is ready", "runs", "waits for", "waits, in the middle of a panic, for", "has ended"]

# The `meeting` of a fiber that has run its function.
HAS_ENDED = 2


def memory(address, format):
    """A number in the process's memory."""
    size = struct.calcsize(format)
    return struct.unpack("=" + format, gdb.selected_inferior().read_memory(address, size).tobytes())[0]


def symbol(name):
    """The address of a symbol. The query works in every language."""
    try:
        found = re.search("0x[0-9a-f]+", gdb.execute("info address " + name, to_string=True))
    except gdb.error:
        found = None
    if not found:
        raise gdb.GdbError("there is no %s: no program with rowlock-fiber is loaded, or it has no symbols" % name)
    return int(found.group(), 16)


class Layout:
    """The offsets of the fields, by their names in `rowlock_fiber_layout` (src/debug/gdb.rs)."""

    def __init__(self):
        entry = symbol("rowlock_fiber_layout")
        while name := memory(entry, "16s").rstrip(b"\0").decode():
            setattr(self, name, memory(entry + 16, "Q"))
            entry += 24

    def __getattr__(self, name):
        raise gdb.GdbError("the program has a rowlock-fiber that is older than this script, without `%s`" % name)


class Fiber:
    def __init__(self, layout, address):
        self.layout, self.address = layout, address
        self.number = memory(address + layout.number, "I")
        self.state = memory(address + layout.state, "B")
        if self.state != FREE and memory(address + layout.meeting, "Q") == HAS_ENDED:
            self.state = ENDED

    def word(self, offset):
        return memory(self.address + offset, "Q")

    def label(self):
        extras = self.word(self.layout.extras)
        if extras and self.state != ENDED:
            at, length = (memory(extras + self.layout.name + 8 * i, "Q") for i in range(2))
            if at:
                name = gdb.selected_inferior().read_memory(at, length).tobytes().decode("utf-8", "replace")
                return "fiber %d `%s`" % (self.number, name)
        return "fiber %d" % self.number

    def waits_for(self):
        """What it waits for, from the symbol of the function that would tell, which cannot be called in a core file."""
        data, table = (self.word(self.layout.waits + 8 * i) for i in range(2))
        if not data:
            return "nothing"
        for entry in range(3, 8):
            name = gdb.execute("info symbol %d" % memory(table + 8 * entry, "Q"), to_string=True)
            if "::kind" not in name:
                continue
            if "waiting::Listed" in name:
                text, length = (memory(data + 8 * i, "Q") for i in (1, 2))
                kind = bytes(gdb.selected_inferior().read_memory(text, length)).decode()
                if kind != "a mutex":
                    return kind
                mutex = memory(memory(data, "Q"), "Q")
                holder = memory(mutex + self.layout.lock_word, "Q") & ~15
                return kind + (" held by " + Fiber(self.layout, holder).label() if holder else "")
            if "join::End" in name:
                return "the end of " + Fiber(self.layout, memory(data, "Q")).label()
            for part, kind in KINDS:
                if part in name:
                    return kind
            return name.split("::kind")[0].lstrip("<").split(" as ")[0]
        return "something"

    def doing(self):
        doing = DOING[self.state]
        if self.state not in (BLOCKED, UNWINDING):
            return doing
        try:
            return doing + " " + self.waits_for()
        except gdb.MemoryError:
            return doing + " something that is not in the core file"

    def level(self):
        """Its level in the feedback queue of its worker. Unstarted fibers are at the highest level."""
        home = self.word(self.layout.home)
        if not home or self.state == UNSTARTED:
            return 0
        queue = home + self.layout.ready
        # Of a vector's capacity, length and address, the address is the largest.
        table = max(memory(queue + self.layout.threads + 8 * i, "Q") for i in range(3))
        standing = table + self.number * self.layout.standing_size
        # After a boost all fibers are at the highest level.
        same = memory(standing + self.layout.standing_boosts, "H") == memory(queue + self.layout.boosts, "H")
        return memory(standing + self.layout.standing_level, "H") if same else 0

    def used(self):
        ticks = self.word(self.layout.used) + memory(self.address + self.layout.spent, "I")
        return ticks * memory(symbol("rowlock_fiber_pace"), "Q") / (1 << 24) / 1e3

    def stack(self):
        top = self.word(self.layout.stack + self.layout.stack_top)
        if not top or self.state in (UNSTARTED, ENDED):
            return ""
        size = memory(self.address + self.layout.stack + self.layout.stack_size, "I")
        return ", stack %#x-%#x" % (top - size, top)

    def describe(self):
        return "%s: %s; level %d, %.1f us used%s" % (
            self.label(), self.doing(), self.level(), self.used(), self.stack())

    def registers(self):
        """The registers where it was left: what a switch stores (src/arch)."""
        at = self.word(self.layout.context)
        words = [memory(at + 8 * i, "Q") for i in range(4)]
        if "aarch64" in gdb.selected_frame().architecture().name():
            return dict(zip(("pc", "x19", "x29"), words), sp=at + 32)
        return dict(zip(("rip", "rbx", "rbp"), words[:1] + words[2:]), rsp=at + 32)


KINDS = [
    ("time::Asleep", "a time"), ("readiness::Readiness", "a descriptor"), ("futex::Listed", "a futex"),
    ("rounds::RuntimeEnd", "the end of its runtime"),
]


def fibers():
    layout = Layout()
    runtimes = symbol("rowlock_fiber_runtimes")
    for place in range(layout.most):
        records = memory(runtimes + 8 * place, "Q")
        for number in range(memory(records + layout.made, "I") if records else 0):
            fiber = Fiber(layout, memory(records + layout.first, "Q") + number * layout.record_size)
            if fiber.state != FREE:
                yield fiber


class FrameId:
    def __init__(self, sp, pc):
        self.sp, self.pc = sp, pc


class Unwinder(gdb.unwinder.Unwinder):
    """Makes the innermost frame look as if it was called from where a fiber was left."""

    def __init__(self):
        super().__init__("rowlock fibers")
        self.registers = self.innermost = None

    def show(self, registers):
        self.registers = registers
        gdb.invalidate_cached_frames()

    def __call__(self, pending):
        if self.registers is None:
            return None
        stack = "sp" if "sp" in self.registers else "rsp"
        here = int(pending.read_register(stack)) & (1 << 64) - 1
        # Only the innermost frame has the thread's own stack pointer.
        if here != self.innermost:
            return None
        # Just below the fiber's frame, because gdb expects stacks to be in order.
        info = pending.create_unwind_info(FrameId(gdb.Value(self.registers[stack] - 16), pending.read_register("pc")))
        for name, value in self.registers.items():
            info.add_saved_register(name, gdb.Value(value).cast(pending.read_register(name).type))
        return info


UNWINDER = Unwinder()
gdb.unwinder.register_unwinder(None, UNWINDER, True)


def look_at(fiber):
    """Makes gdb show a fiber's frames above the innermost one. Returns False if it has none, or runs."""
    UNWINDER.show(None)
    if fiber is None or fiber.state not in (READY, BLOCKED, UNWINDING):
        return False
    frame = gdb.newest_frame()
    registers = fiber.registers()
    stack = "sp" if "sp" in registers else "rsp"
    UNWINDER.innermost = int(frame.read_register(stack)) & (1 << 64) - 1
    UNWINDER.show(registers)
    return True


class Fibers(gdb.Command):
    """List all fibers: their names, what they do and wait for, their levels, times and stacks."""

    def __init__(self):
        super().__init__("fibers", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        for fiber in fibers():
            print(fiber.describe())


def bt():
    """The backtrace without its first frame, which is the thread's."""
    print("".join(gdb.execute("bt -frame-arguments none", to_string=True).splitlines(True)[1:]).rstrip())


class One(gdb.Command):
    """fiber N: look at fiber N. fiber off: look at the thread again. fiber apply all bt: the backtraces of all fibers."""

    def __init__(self):
        super().__init__("fiber", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        words = argument.split()
        if words == ["off"]:
            look_at(None)
        elif words == ["apply", "all", "bt"]:
            for fiber in fibers():
                print("\n" + fiber.describe())
                if look_at(fiber):
                    bt()
            look_at(None)
        elif len(words) == 1 and words[0].isdigit():
            chosen = [fiber for fiber in fibers() if fiber.number == int(words[0])]
            if not chosen:
                raise gdb.GdbError("there is no fiber %s: see `fibers`" % words[0])
            for fiber in chosen:
                print(fiber.describe())
            if look_at(chosen[0]):
                bt()
                gdb.execute("frame 1", to_string=True)
            elif chosen[0].state == RUNNING:
                print("it runs: see `info threads`")
        else:
            raise gdb.GdbError("fiber N, fiber off, or fiber apply all bt")


Fibers()
One()
