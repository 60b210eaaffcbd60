"""Runs a command and prints the wall time and the peak memory that it took: {"status", "wall_s", "peak_bytes"}.

    python benchmarks/spent.py COMMAND [ARGUMENT ...]

A program of its own that imports little, because the kernel counts to a child's peak what its parent held at the start.
"""

import json
import resource
import subprocess
import sys
import time


def main() -> None:
    start_s = time.perf_counter()
    status = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=False).returncode
    wall_s = time.perf_counter() - start_s
    peak_bytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    print(json.dumps({"status": status, "wall_s": wall_s, "peak_bytes": peak_bytes}))


if __name__ == "__main__":
    main()
