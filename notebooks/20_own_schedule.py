# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 20 Your own schedule
#
# **Question.** I have an idea which clusters a sweep should update. Does it help?
#
# A schedule is a class with a method `choose`. It is asked before every update. It sees the hidden
# state $h$ and what the cell proposes for it, both of shape (models $S$, trajectories $B$, nodes
# $n$, channels $d$), and answers with one cluster for each trajectory, or with the set of all that
# are to move. What it wants to remember it hands back as its state. Change the class below and run
# the page again, or bring a module of yours: `try_schedule("package.module:Class")`.

# %% tags=["parameters"]
profile = "full"  # quick or full; reference has no strict protocol
settings = {}  # fields of the config to replace, such as {"relaxation": 0.4}
artifacts = ""  # where trained models are kept; empty: the project's artifacts folder

# %%
import torch

from clusterdyn import check_schedule, try_schedule
from clusterdyn.display import finish, show_text
from clusterdyn.figures.trial import trial_ratios
from clusterdyn.schedules import Schedule

# %% [markdown]
# ## Ten lines
#
# The idea: update the cluster that wants to move most, but never one that has just been updated.


# %%
class Patient(Schedule):
    def start(self, generators, batch):
        return torch.full((len(generators), batch), -1)  # no cluster has been updated yet

    def choose(self, view, last):
        residual = (view.proposal - view.hidden).square().sum(dim=-1)  # (S, B, n)
        wish = residual @ self.membership(residual)  # (S, B, C)
        wish = wish.masked_fill(self.one_hot(last), -1)
        chosen = wish.argmax(dim=-1)  # (S, B)
        return chosen, chosen


# %% [markdown]
# ## Does it keep the rules?
#
# A schedule may see the present of its own trajectory and nothing else, must not change what it is
# shown, must name at least one cluster, and must choose alike under the same seeds. The check runs
# it on untrained models, disturbs what it may not see, and says in a sentence what is wrong.

# %%
check_schedule(Patient)
show_text("`Patient` keeps the rules.")

# %% [markdown]
# ## The verdict
#
# The strict protocol of [06 Protocol](06_protocol.html): the same grid of learning rates for every
# arm, chosen on validation; fresh test seeds; once at the sweeps of the study, and once with as
# many sweeps as give it the full sweep's node updates; against the full sweep, and against a random
# choice at its own node updates.

# %%
trial = try_schedule(Patient, profile, settings, artifacts)
trial_ratios(trial).show()

# %%
trial.comparisons().show()

# %%
trial.ledger().show()

# %% [markdown]
# ## What was found

# %%
show_text(trial.verdict())
finish("20_own_schedule", figures=1)
