"""The `farm` command, also as `python -m farm`."""

import signal


def main() -> None:
    """Entry point of the `farm` command: who ends it while it is imported is answered as soon as it can speak."""
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))  # see interruption.listen
    from farm import cli

    cli.main()


if __name__ == "__main__":
    main()
