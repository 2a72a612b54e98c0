"""`make demo`: the main job on a real cluster, shown step by step, and failing where a promise does not hold."""
