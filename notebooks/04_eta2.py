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
# # 04 The η² law
#
# **Question.** Do sequential and synchronous sweeps of the trained models differ as theory says,
# and what follows from that?
#
# With $F(h) = f(h, z) - h$, one sequential minus one synchronous sweep is, at node $i$,
#
# $$D_i = \eta^2 \sum_{j\ \text{before}\ i} J_{ij} F_j + O(\eta^3)$$
#
# with $J$ the Jacobian of $F$ and "before" the order of the updates: $\eta^2\, L(J) F$ with the
# strictly lower block triangle of $J$. **This holds for any smooth update.** It validates the
# implementation and says nothing about whether the idea helps. What can fail is the coefficient,
# the slope and the zeros, and so these are what is checked.

# %% tags=["parameters"]
profile = "reference"  # quick, reference or full
settings = {}  # fields of the config to replace, such as {"partition": "strided"}
artifacts = ""  # where trained models are kept; empty: the project's artifacts folder

# %%
from clusterdyn import findings, open_study, tables
from clusterdyn.display import finish, show_text
from clusterdyn.figures import mechanism as figures

study = open_study(profile, settings, artifacts)

# %% [markdown]
# ## Size, with the predicted coefficient

# %%
figures.discrepancy(study).show()

# %% [markdown]
# ## Sign and value, node by node

# %%
figures.coefficient(study).show()

# %% [markdown]
# ## The slope, and how the error vanishes

# %%
figures.local_slopes(study).show()

# %%
figures.seed_slopes(study).show()

# %%
tables.laws(study).show()

# %% [markdown]
# ## Zero controls and verdict
#
# The block that moves first sees what the synchronous sweep sees, so its discrepancy is exactly 0.
# On a partition into independent sets (odd and even nodes of a ring) it makes no difference whether
# the nodes of one set move at once or one after another.

# %%
tables.mechanism(study).show()

# %% [markdown]
# ## More than one sweep
#
# After a fixed number of sweeps the order approaches 2 as $\eta$ falls. Over a fixed span $K\eta$
# it approaches 1, since the number of sweeps grows as $1/\eta$. How far it has come at the smallest
# $\eta$ is in the caption.

# %%
figures.order_control(study).show()

# %% [markdown]
# ## The published view

# %%
figures.reference_view(study).show()

# %% [markdown]
# ## What was found

# %%
show_text(findings.mechanism(study))
finish("04_eta2", figures=6)
