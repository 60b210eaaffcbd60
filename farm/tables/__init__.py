"""What people see on the terminal, made from rows."""
