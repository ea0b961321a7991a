"""The strict protocol: selection on validation, fresh test seeds, equal work."""
