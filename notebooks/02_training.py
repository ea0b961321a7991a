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
# # 02 Training
#
# **Question.** What was trained, does training behave, and what does the schedule do meanwhile?
#
# A ring of $n$ nodes with $d$ channels each starts at $h = 0$. In every time step the observed or
# predicted state and the torque give each node a drive $z_i$, and $K$ sweeps relax the hidden
# state:
#
# $$h \leftarrow h + \eta\, a \odot \bigl(f(h, z) - h\bigr), \qquad
# f_i = \tanh\bigl(W_\mathrm{self} h_i + W_\mathrm{left} h_{i-1} + W_\mathrm{right} h_{i+1}
# + z_i\bigr)$$
#
# where the schedule chooses the active nodes $a$. A linear read-out of all nodes predicts the next
# state, which is fed back. `full`, the published baseline, sweeps over all nodes at once.
# `histogram`, the published idea, updates one cluster a sweep: the one with the most nodes in the
# highest bin of disagreement $\lVert h_i - \text{mean of its neighbours}\rVert_2$. The published
# report does not say who wins a tie; here the lowest-numbered cluster does.

# %% tags=["parameters"]
profile = "reference"  # quick, reference or full
settings = {}  # fields of the config to replace, such as {"relaxation": 0.4, "sweeps": 6}
artifacts = ""  # where trained models are kept; empty: the project's artifacts folder

# %%
from clusterdyn import findings, open_study, tables
from clusterdyn.display import finish, show_text
from clusterdyn.figures import training as figures

study = open_study(profile, settings, artifacts)

# %%
tables.settings(study).show()

# %% [markdown]
# ## Learning curves of every seed

# %%
figures.learning_curves(study).show()

# %% [markdown]
# ## Learning rates, and where the grid ends
#
# The published trial chose each arm's learning rate on the *test* score, from a grid of three, and
# averaged the baseline over fewer seeds than the idea. This run selects by the same rule.

# %%
figures.learning_rates(study).show()

# %% [markdown]
# ## How often was each cluster chosen?

# %%
figures.cluster_choices(study).show()

# %%
tables.ledger(study).show()

# %% [markdown]
# ## What was found

# %%
show_text(findings.training(study))
finish("02_training", figures=3)
