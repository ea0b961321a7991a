"""What training costs: measured side by side with other ways, and against its size."""
