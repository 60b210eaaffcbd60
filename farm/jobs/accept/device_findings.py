"""What farmrt's `examine` says of a GPU and its driver, judged: answers in, findings out. Pure."""

from farm.farmrt.answers import ClockAnswer, DeviceAnswer, LaunchesAnswer, LimitsAnswer, ZeroCopyAnswer
from farm.units.acceptance import AcceptanceFinding, State, Trust

CLOCK, LAUNCHES, ZERO_COPY, LIMITS = "clock of events", "launches", "zero copy", "limits"
BY_HOST = "launches are timed by the host's clock"
COPIES = "weights are copied"
LEAST_SHARE, MOST_SHARE = 0.4, 1.1  # of the wall time, that events may tell of launches in a row
COARSE_NS = 1_000_000
USUAL_WINDOW = 16
CLEARLY = 0.95  # of the time with the usual window: so fast another one must be
US, MIB = 1e3, 1 << 20


def clock_finding(answer: ClockAnswer, is_played: bool = False) -> AcceptanceFinding:
    """Whether events tell times that add up to the host's; those of a played GPU are its own."""
    share = answer.events_ns / answer.wall_ns
    counts = {"end before they start": answer.reversed, "take no time": answer.empty, "run backwards": answer.backwards}
    wrong = [f"{count} of {answer.events} events {what}" for what, count in counts.items() if count]
    if not wrong and not is_played and not LEAST_SHARE <= share <= MOST_SHARE:
        wrong = [f"events tell {100 * share:.0f} % of the time that passed"]
    if not wrong and answer.resolution_ns >= COARSE_NS:
        wrong = [f"it moves by {answer.resolution_ns / US:.0f} us"]
    if wrong:
        return AcceptanceFinding(
            check=CLOCK, state="limited", text=wrong[0], effect=BY_HOST, trust=Trust(host_times=True)
        )
    told = "its times are played" if is_played else f"{100 * share:.0f} % of the wall time"
    text = f"{told}, resolution {answer.resolution_ns} ns"
    return AcceptanceFinding(check=CLOCK, state="ok", text=text)


def launches_finding(answer: LaunchesAnswer) -> AcceptanceFinding:
    """How often the queue is best flushed, and whether launches are better recorded."""
    record = True if 0 < answer.recorded_ns < CLEARLY * answer.launch_ns else None
    text = f"{answer.launch_ns / US:.0f} us each"
    text += f", {answer.recorded_ns / US:.0f} in a recording" if answer.recorded_ns else ""
    recorded = ["launches are recorded once"] if record else []
    if not answer.needs_flush:
        trust, text = Trust(flush_every=0, record=record), f"{text}, begun at once"
        return AcceptanceFinding(check=LAUNCHES, state="ok", text=text, effect="; ".join(recorded), trust=trust)
    times = {window.every: window.ns for window in answer.windows if window.every > 0}
    best = min(times, key=lambda every: times[every], default=USUAL_WINDOW)
    every = best if times.get(best, 0) < CLEARLY * times.get(USUAL_WINDOW, 0) else USUAL_WINDOW
    effect = "; ".join([f"the queue is flushed every {every} launches", *recorded])
    text, trust = f"{text}, none begins before a flush", Trust(flush_every=every, record=record)
    return AcceptanceFinding(check=LAUNCHES, state="ok", text=text, effect=effect, trust=trust)


def zero_copy_finding(answer: ZeroCopyAnswer) -> AcceptanceFinding:
    """Whether weights may be read where the host has them."""
    if answer.outcome == "in place":
        effect = "weights are read in place"
        return AcceptanceFinding(
            check=ZERO_COPY, state="ok", text="in place", effect=effect, trust=Trust(zero_copy=True)
        )
    code = f" ({answer.code_name})" if answer.code_name else ""
    state: State = "limited" if answer.outcome in ("fails", "wrong") else "ok"
    return AcceptanceFinding(check=ZERO_COPY, state=state, text=f"{answer.outcome}{code}"[:100], effect=COPIES)


def limits_finding(answer: LimitsAnswer, device: DeviceAnswer) -> AcceptanceFinding:
    """Where the device does less than its driver claims."""
    claimed_group = min(device.max_work_group_size, answer.kernel_limit or device.max_work_group_size)
    claimed_groups = [min(items, claimed_group, 4096) for items in device.max_work_item_sizes[:3]]
    less: dict[str, tuple[int, int]] = {
        "max_allocation_bytes": (answer.allocation_bytes, answer.tried_allocation_bytes),
        "image2d_max_width": (answer.image_width, device.image2d_max_width * device.images),
        "image2d_max_height": (answer.image_height, device.image2d_max_height * device.images),
    }
    short = {name: found for name, (found, claimed) in less.items() if found < claimed}
    groups = [found for found, claimed in zip(answer.group_items, claimed_groups, strict=True) if found < claimed]
    short |= {"max_work_group_size": min(groups)} if groups else {}
    if not all(short.values()):
        nothing = next(name for name, found in short.items() if not found)
        return AcceptanceFinding(check=LIMITS, state="failed", text=f"nothing works up to the claimed {nothing}")
    groups_text = "x".join(map(str, answer.group_items))
    sizes = f"{answer.allocation_bytes / MIB:.0f} MiB, images of {answer.image_width} x {answer.image_height}"
    text = f"{sizes}, groups up to {groups_text}"
    if not short:
        return AcceptanceFinding(check=LIMITS, state="ok", text=text)
    effect = "plans keep " + ", ".join(f"{name} {found}" for name, found in short.items())
    return AcceptanceFinding(
        check=LIMITS,
        state="limited",
        text=f"less than claimed: {text}",
        effect=effect,
        trust=Trust.model_validate(short),
    )
