"""What commands are called and which options they have: all that help needs, without what doing them needs.

Each command imports the file beside this folder that does it, and calls it with the options.
"""
