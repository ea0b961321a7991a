"""From notebooks to an offline HTML report: run, render, publish."""
