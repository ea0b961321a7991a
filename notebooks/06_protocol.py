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
# # 06 Protocol
#
# **Question.** What can the strict protocol claim, and did all arms get the same?
#
# A comparison is only as good as its protocol: if one arm's learning rate is chosen on the score
# that is reported, or from a grid that ends too early, or if it does less work, then the difference
# says something about the protocol and not about the schedule.

# %% tags=["parameters"]
profile = "full"  # quick or full; reference has no strict protocol
settings = {}  # fields of the config to replace, such as {"grid_extensions": 3}
artifacts = ""  # where trained models are kept; empty: the project's artifacts folder

# %%
from clusterdyn import open_study
from clusterdyn.display import finish, show_text
from clusterdyn.figures import protocol as figures
from clusterdyn.strict import design, findings, tables

study = open_study(profile, settings, artifacts)

# %% [markdown]
# ## What the reference protocol did, and what is done instead

# %%
show_text(design.reference_and_strict(study))

# %% [markdown]
# How many seeds and rates the side experiments get in profile `full` was settled when results of
# earlier runs had been seen. Time alone decided it; no schedule, rate or rule was changed with it.

# %% [markdown]
# ## Selection on validation

# %%
figures.strict_selection(study).show()

# %%
tables.budgets(study).show()

# %%
tables.extensions(study).show()

# %% [markdown]
# ## Nothing against nothing
#
# The full sweep is compared with itself, trained on the same minibatches in another order. A
# difference here would be a false alarm.

# %%
figures.strict_null(study).show()

# %% [markdown]
# ## How small a difference would be found?
#
# Studies are drawn from the two arms above; in each, one arm's scores are lowered by a known share.
# The line is what a paired $t$ test promises by the noncentral $t$ distribution.

# %%
figures.strict_power(study).show()

# %% [markdown]
# ## What was found

# %%
show_text(findings.protocol(study))
finish("06_protocol", figures=3)
