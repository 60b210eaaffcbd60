"""The controller's side of the native runtime: drivers on this host, files on a unit, the process and its answers."""
