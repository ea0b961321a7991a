"""The published trial: its figures, the report in its format, and how the two agree."""
