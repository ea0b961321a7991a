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
# # 10 Limits
#
# **Question.** Does what was found hold on other graphs and partitions, with more nodes, more
# sweeps and other relaxation factors?
#
# Every place departs from the study's own setting in one respect. At each the full sweep takes its
# $K$ sweeps, and a schedule that moves one cluster a sweep takes as many as make its node updates
# equal. Learning rates are selected anew for every arm at every place, on validation.
# On a general graph, messages of all neighbours share one weight matrix and are averaged; on the
# ring, left and right keep their own.

# %% tags=["parameters"]
profile = "full"  # quick or full; reference has no strict protocol
settings = {}  # fields of the config to replace, such as {"relaxation": 0.4}
artifacts = ""  # where trained models are kept; empty: the project's artifacts folder

# %%
from clusterdyn import open_study
from clusterdyn.display import finish, show_text
from clusterdyn.figures import limits as figures
from clusterdyn.limits import findings, tables

study = open_study(profile, settings, artifacts)

# %% [markdown]
# ## Other graphs, partitions and sizes

# %%
figures.limits_structure(study).show()

# %%
tables.claims(study, "graphs_full").show()

# %%
tables.claims(study, "graphs_random").show()

# %%
tables.claims(study, "partitions_full").show()

# %%
tables.claims(study, "partitions_random").show()

# %%
tables.claims(study, "nodes_full").show()

# %%
tables.claims(study, "nodes_random").show()

# %% [markdown]
# ## Other numbers of sweeps, and other relaxation factors in training

# %%
figures.limits_dynamics(study).show()

# %%
tables.claims(study, "sweeps_full").show()

# %%
tables.claims(study, "sweeps_random").show()

# %%
tables.claims(study, "relaxations_full").show()

# %%
tables.claims(study, "relaxations_random").show()

# %% [markdown]
# ## Do the sweeps converge?

# %%
figures.limits_settling(study).show()

# %%
tables.settling(study).show()

# %% [markdown]
# ## The $\eta^2$ law, once more

# %%
figures.limits_law(study).show()

# %%
tables.laws(study).show()

# %% [markdown]
# ## What was measured, and what was left out

# %%
tables.arms(study, "graphs").show()

# %%
tables.arms(study, "partitions").show()

# %%
tables.arms(study, "nodes").show()

# %%
tables.arms(study, "sweeps").show()

# %%
tables.arms(study, "relaxations").show()

# %%
tables.left_out(study).show()

# %% [markdown]
# ## What was found

# %%
show_text(findings.limits(study))
finish("10_limits", figures=4)
