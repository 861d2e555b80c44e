"""How `regard show` draws an example, one file a kind of task."""
