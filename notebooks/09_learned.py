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
# # 09 Learned schedule
#
# **Question.** Does a schedule that is learned beat one that is drawn by lot, or any other, at
# equal work?
#
# The published idea comes from decoding, where a table that is learned by Q-learning orders the
# clusters ([Habib, Beemer, Kliewer](https://arxiv.org/abs/2112.13934)). Here the state of a
# cluster is the histogram of its nodes' disagreement over $m$ bins, the action is the cluster to
# update, and
#
# $$Q(c, x_c) \leftarrow (1 - \alpha)\, Q(c, x_c) + \alpha \big( r + \gamma \max_{c'} Q(c', x'_{c'})
# \big) ,$$
#
# where every cluster $c'$ is valued at its own next state. `q_learning` updates one cluster a
# sweep; `q_ordered` updates all of them once, in the order of their values. The reward $r$ is the
# fall of the global residual $\lVert f(h, z) - h \rVert$, which needs no answer, or the fall of
# the loss, which needs it while learning and not at test.

# %% tags=["parameters"]
profile = "full"  # quick or full; reference has no strict protocol
settings = {}  # fields of the config to replace, such as {"relaxation": 0.4}
artifacts = ""  # where trained models are kept; empty: the project's artifacts folder

# %%
from clusterdyn import open_study
from clusterdyn.display import finish, show_text
from clusterdyn.figures import learned as figures
from clusterdyn.qlearning import findings, tables

study = open_study(profile, settings, artifacts)

# %% [markdown]
# ## Learning on models whose weights stay as they are
#
# The models were trained with another schedule. Their policies are learned on the training split.

# %%
figures.learned_curves(study).show()

# %% [markdown]
# ## Which histogram is worth updating?

# %%
figures.learned_table(study).show()

# %%
tables.policies(study).show()

# %% [markdown]
# ## Beside other schedules of the same models

# %%
figures.learned_frozen(study).show()

# %%
tables.claims(study, "frozen").show()

# %% [markdown]
# ## Learning beside the weights
#
# Each epoch trains the weights under the present policy with exploration, and then the tables.

# %%
figures.learned_joint(study).show()

# %%
tables.arms(study).show()

# %%
tables.claims(study, "joint").show()

# %% [markdown]
# ## Does any beat a random choice?

# %%
figures.learned_against_random(study).show()

# %% [markdown]
# ## What exploration costs, and what the answer is worth as reward

# %%
figures.learned_exploration(study).show()

# %%
tables.claims(study, "exploration").show()

# %%
tables.claims(study, "reward").show()

# %% [markdown]
# ## What was found

# %%
show_text(findings.learned(study))
finish("09_learned", figures=6)
