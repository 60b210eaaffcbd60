"""The same jobs on the units of many hosts: Dask carries the work, and each host does it as `farm` would by itself.

A scheduler (`farm scheduler`) knows the hosts (`farm worker`) and the units that each offers. A command with
`--cluster` is a client: for each unit and model it sends a command line and the files that it needs, known by their
hashes, and gets back what `--json` prints. The host runs that command line in a process of its own.
"""
