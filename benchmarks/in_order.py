"""Cycles of a loop on a Cortex-A53, by rules of its issue that were measured on one.

llvm-mca's model of that core loads 128 bits in a cycle and lets no load end before an earlier multiply-add; the core
does neither. What its cycle counter says (github.com/daniestevez/qsdr, qsdr-benchmarks/tests), taken here:

- two instructions are issued in a cycle, in order; of arithmetic on 128 bits one, before another that uses no vector;
- 128 bits are loaded in two cycles, in which nothing else is issued, and are there after four; two such registers by
  one instruction take four cycles, and the second is there after six;
- 64 bits are loaded in one cycle, beside which arithmetic on 64 bits or `ins` is issued, and are there after three;
- arithmetic on floats takes four cycles; a multiply-add eight, and needs what it adds to, as a store its data, only
  four cycles after its start.

Every load finds its data in the first cache. Not among the rules, as public sources do not agree on it: that no load of
a vector begins in the fourth cycle of a multiply-add.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence

ITERATIONS = 32  # of which the second half is looked at
LATE = 4  # cycles after its start in which an instruction needs what it adds to
_LOADS = ("ldr", "ldp", "ldur", "ldnp", "ld1", "ld1r")
_STORES = ("str", "stp", "stur", "st1", "prfm")
_COMPARES = ("cmp", "cmn", "tst", "fcmp")
_SUMS = ("fmla", "fmls", "mla", "mls", "smlal", "sdot", "udot", "ins")
_BRANCHES = ("b", "cbz", "cbnz", "tbz", "tbnz")
_READ_FLAGS = ("b.", "cs", "cinc", "fcsel", "ccmp")
_REGISTER = re.compile(r"\b([qvdsbhxw])(\d+)\b")
_WIDE = re.compile(r"\bq\d|\.(16b|8h|4s|2d)\b")


@dataclasses.dataclass(frozen=True)
class Instruction:
    """What the issue of an instruction depends on.

    Attributes:
        reads: the registers that it needs when it is issued.
        adds: those that it needs LATE cycles after.
        writes: of each register that it writes, the cycles until it is there.
        alone: cycles in which nothing else is issued; 0: it shares one.
        vectors: halves of the vector unit that it uses, of two.
        is_load: whether it reads memory.
        is_memory: whether it reads or writes it, which one may in a cycle.
    """

    reads: frozenset[str]
    adds: frozenset[str]
    writes: Mapping[str, int]
    alone: int
    vectors: int
    is_load: bool = False
    is_memory: bool = False


def cycles(lines: Sequence[str], waits: bool = True) -> float:
    """Those of an iteration; without `waits`, what is loaded is there at once."""
    body = [parse(line) for line in lines]
    first = issue(body * (ITERATIONS // 2), waits)
    return (issue(body * ITERATIONS, waits) - first) / (ITERATIONS - ITERATIONS // 2)


def issue(instructions: Sequence[Instruction], waits: bool = True) -> int:
    """Cycles in which all of these are issued, one run of them."""
    there: dict[str, int] = {}
    now, pair = 0, list[Instruction]()
    for each in instructions:
        needed = [there.get(register, 0) for register in each.reads]
        ready = max([0, *needed, *(there.get(register, 0) - LATE for register in each.adds)])
        if ready > now or not _fits(each, pair):
            now, pair = max(ready, now + bool(pair)), []
        pair.append(each)
        there |= {register: now + after * (waits or not each.is_load) for register, after in each.writes.items()}
        if each.alone:
            now, pair = now + each.alone, []
    return now + bool(pair)


def parse(line: str) -> Instruction:
    """The instruction of a line of assembly."""
    name, _, operands = line.split("//")[0].strip().partition("\t" if "\t" in line.strip() else " ")
    if name not in _LOADS + _STORES:
        return _arithmetic(name, operands)
    data, _, address = operands.partition("[")
    registers, at = _registers(data), _registers(address)
    wide = bool(_WIDE.search(data))
    moved = {at[0]: 1} if not address.endswith("]") else {}
    alone = len(registers) if wide or len(registers) > 1 else 0
    vectors = _vectors(data)
    if name in _STORES:
        return Instruction(frozenset(at), frozenset(registers), moved, alone, vectors, is_memory=True)
    step = 1 + wide
    loaded = {register: 2 + step * (1 + place) for place, register in enumerate(registers)}
    return Instruction(frozenset(at), frozenset(), loaded | moved, alone * step, vectors, True, True)


def _arithmetic(name: str, operands: str) -> Instruction:
    registers = _registers(operands)
    reads_all = name in (*_COMPARES, *_BRANCHES) or name.startswith("b.")
    reads = registers if reads_all else registers[1:]
    flags = {"flags"} if name.startswith(_READ_FLAGS) else set()
    vectors = _vectors(operands)
    writes = {} if reads_all else {register: _latency(name, vectors) for register in registers[:1]}
    if name in (*_COMPARES, "subs", "adds", "ands", "ccmp"):
        writes["flags"] = 1
    adds = frozenset(registers[:1] if name in _SUMS else ())
    return Instruction(frozenset(reads) | flags, adds, writes, 0, vectors)


def _latency(name: str, vectors: int) -> int:
    if vectors:
        return 2 if name in ("ins", "mov") else 2 * LATE if name in _SUMS else LATE
    return LATE if name in ("madd", "msub", "mul") else 1


def _registers(operands: str) -> list[str]:
    return [f"{'x' if kind in 'xw' else 'v'}{number}" for kind, number in _REGISTER.findall(operands)]


def _vectors(operands: str) -> int:
    is_vector = any(register.startswith("v") for register in _registers(operands))
    return is_vector + bool(_WIDE.search(operands))


def _fits(each: Instruction, pair: Sequence[Instruction]) -> bool:
    """Whether an instruction is issued in the same cycle as those before it."""
    if not pair:
        return True
    (first,) = pair[:1]
    taken = len(pair) == 2 or each.alone > 0 or each.vectors == 2 or (first.is_memory and each.is_memory)
    return not taken and first.vectors + each.vectors <= 2
