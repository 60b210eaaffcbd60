"""The host controller: units, transports, jobs, results and the command line."""

__version__ = "0.1.0"
