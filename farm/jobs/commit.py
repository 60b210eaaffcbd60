"""Which commit a measurement tells of."""

import subprocess

GIT_S = 10.0


def working_commit() -> str:
    """The commit of the working folder; empty where it is under no git, or there is no git."""
    try:
        done = subprocess.run(
            ["git", "--no-optional-locks", "rev-parse", "--verify", "--quiet", "HEAD"],
            capture_output=True,
            timeout=GIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else ""
