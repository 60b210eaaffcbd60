"""The host controller: units, transports, jobs, results and the command line."""
