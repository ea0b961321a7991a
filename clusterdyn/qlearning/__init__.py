"""Tabular Q-learning of update schedules, after cluster-scheduled decoding.

The state of a cluster is the histogram of its nodes' disagreement, the action is the cluster to
update, and an action's value is read at the cluster's own state.

Source: Habib, Beemer, Kliewer, RELDEC, arXiv 2112.13934, where clusters of check nodes are
scheduled by a table over (cluster, state of the cluster).
"""
