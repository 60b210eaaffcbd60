"""Other engines than farmrt: an adapter a file; base.py says what one is, registry.py collects them."""
