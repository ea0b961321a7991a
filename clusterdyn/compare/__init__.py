"""Two reports beside each other, and a report beside the ranges that are expected of it."""
