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
# # 07 Why
#
# **Question.** Why does the published idea differ from the full sweep?
#
# Between the published idea and the full sweep lie several changes. They are made one at a time, so
# that the mean differences $\bar\Delta_j$ of the steps add up to the whole,
#
# $$\sum_j \bar\Delta_j = \overline{\mathrm{MSE}}_\text{full}
# - \overline{\mathrm{MSE}}_\text{published} .$$
#
# What a step brings depends on its place in the order, so the shares belong to this path.

# %% tags=["parameters"]
profile = "full"  # quick or full; reference has no strict protocol
settings = {}  # fields of the config to replace, such as {"noise_levels": [0.5, 1.0]}
artifacts = ""  # where trained models are kept; empty: the project's artifacts folder

# %%
from clusterdyn import open_study
from clusterdyn.display import finish, show_text
from clusterdyn.figures import why as figures
from clusterdyn.strict import findings, tables

study = open_study(profile, settings, artifacts)

# %% [markdown]
# ## One change at a time

# %%
figures.strict_decomposition(study).show()

# %%
tables.claims(study, "decomposition").show()

# %% [markdown]
# ## Ties
#
# The histogram picks the cluster with the most nodes in the highest bin. With few nodes a cluster
# several clusters can tie; a rule then decides.

# %%
figures.strict_ties(study).show()

# %% [markdown]
# ## Who is updated, sweep by sweep
#
# A cluster starves in a trajectory if no sweep updates it there. That one cluster starves in all
# trajectories shows in the shares; that each trajectory keeps to a cluster of its own does not, and
# so the repeats are counted as well.

# %%
figures.strict_sweep_choices(study).show()

# %% [markdown]
# ## Is it predictability?
#
# A read-out can get used to an order that never changes. If so, noise in a fixed order must harm,
# and a random order must be better if it is always the same one.

# %%
figures.strict_predictability(study).show()

# %%
tables.claims(study, "predictability").show()

# %% [markdown]
# ## Longer horizons, more training

# %%
figures.strict_horizons(study).show()

# %%
tables.claims(study, "horizons").show()

# %%
figures.strict_epochs(study).show()

# %%
tables.claims(study, "epochs").show()

# %% [markdown]
# ## Beside predictors of other kinds

# %%
figures.strict_yardsticks(study).show()

# %%
tables.claims(study, "yardsticks").show()

# %% [markdown]
# ## What was found

# %%
show_text(findings.why(study))
finish("07_why", figures=7)
