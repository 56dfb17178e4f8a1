"""The NES as an array: N consoles in one array, stepped by native code without the GIL."""
