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
# # 05 Schedules
#
# **Question.** Does any schedule beat the full sweep at equal work?
#
# One cluster a sweep is less work than all nodes a sweep. Work is counted in node updates a time
# step: for $K$ sweeps that move $n_k$ nodes each, $\sum_{k=1}^{K} n_k$. Every schedule gets the
# number of sweeps that comes closest to a budget of node updates, a learning rate selected on
# validation, and the same fresh test seeds; notebook 06 says what this protocol can claim.

# %% tags=["parameters"]
profile = "full"  # quick or full; reference has no strict protocol
settings = {}  # fields of the config to replace, such as {"work_budgets": [12, 48]}
artifacts = ""  # where trained models are kept; empty: the project's artifacts folder

# %%
from clusterdyn import open_study
from clusterdyn.display import finish, show_text
from clusterdyn.figures import schedules as figures
from clusterdyn.strict import findings, tables

study = open_study(profile, settings, artifacts)

# %% [markdown]
# ## Test error against work

# %%
figures.strict_work(study).show()

# %%
figures.strict_work_seeds(study).show()

# %% [markdown]
# ## Every schedule against the full sweep
#
# The ratio of geometric means is below 1 where the schedule is better. At equal sweeps, a schedule
# of one cluster a sweep does less work; at equal work, it does more sweeps.

# %%
figures.strict_equal_work(study).show()

# %%
tables.claims(study, "equal_work").show()

# %%
tables.claims(study, "equal_sweeps").show()

# %% [markdown]
# ## Which clusters are updated?

# %%
figures.strict_starvation(study).show()

# %% [markdown]
# ## Trained with one schedule, tested under another

# %%
figures.strict_matrix(study).show()

# %% [markdown]
# ## Another relaxation factor at test time
#
# The models are trained at one $\eta$ and run at others.

# %%
figures.strict_relaxation(study).show()

# %% [markdown]
# ## Every arm

# %%
tables.arms(study).show()

# %% [markdown]
# ## What was found

# %%
show_text(findings.schedules(study))
finish("05_schedules", figures=6)
