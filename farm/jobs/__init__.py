"""Jobs: what a command does, composed of everything below. A job returns rows; it never prints them."""
