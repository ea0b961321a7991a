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
# # 11 GRU
#
# **Question.** Does a schedule help when it acts inside a gated recurrent unit, on clusters of its
# hidden units?
#
# Every unit is a node that hears all others. The cell proposes its next state,
# $f(h, z) = (1 - u) \odot n + u \odot h$ with the gates of
# [Cho et al. 2014](https://arxiv.org/abs/1406.1078) in PyTorch's form; active units take it, the
# others hold theirs. With all units active, one sweep a time step and $\eta = 1$, that is
# `torch.nn.GRU`. Nothing else differs from the study's own cell: the same schedules drive it, and
# the same protocol selects, freezes and tests it.
#
# Two comparisons: at equal work, where one cluster a sweep makes as many sweeps as there are
# clusters, all within one time step; and at equal sweeps, where one cluster alone moves in a time
# step and the rest of the state is carried over, for a fraction of the updates.

# %% tags=["parameters"]
profile = "full"  # quick or full; reference has no strict protocol
settings = {}  # fields of the config to replace, such as {"relaxation": 0.4}
artifacts = ""  # where trained models are kept; empty: the project's artifacts folder

# %%
from clusterdyn import open_study
from clusterdyn.display import finish, show_text
from clusterdyn.figures import gru as figures
from clusterdyn.limits import findings, tables

study = open_study(profile, settings, artifacts)

# %%
figures.gru_schedules(study).show()

# %% [markdown]
# ## At equal work

# %%
tables.claims(study, "gru_full").show()

# %%
tables.claims(study, "gru_random").show()

# %% [markdown]
# ## At equal sweeps

# %%
tables.claims(study, "gru_sweeps_full").show()

# %%
tables.claims(study, "gru_sweeps_random").show()

# %% [markdown]
# ## What was measured

# %%
tables.arms(study, "gru").show()

# %%
tables.arms(study, "gru_sweeps").show()

# %% [markdown]
# ## What was found

# %%
show_text(findings.gru(study))
finish("11_gru", figures=1)
