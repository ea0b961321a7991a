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
# # 01 Data
#
# **Question.** What do the models have to learn, and are the data what we think they are?
#
# A pendulum with viscous friction is pushed by a random torque $u$ that is held over each time
# step of 0.05 s:
#
# $$\ddot\theta = -\frac{g}{\ell}\sin\theta - \frac{c}{m\ell^2}\dot\theta + \frac{u}{m\ell^2}$$
#
# with $g = 9.81\ \mathrm{m/s^2}$, $\ell = 1\ \mathrm{m}$, $m = 1\ \mathrm{kg}$ and
# $c = 0.1\ \mathrm{N\,m\,s}$. A model observes $(\sin\theta, \cos\theta, \omega)$.

# %% tags=["parameters"]
profile = "reference"  # quick, reference or full
settings = {}  # fields of the config to replace, such as {"horizon": 8, "seeds": [0, 1, 2]}
artifacts = ""  # where trained models are kept; empty: the project's artifacts folder

# %%
from clusterdyn import findings, open_study, tables
from clusterdyn.display import finish, show_text
from clusterdyn.figures import data as figures

study = open_study(profile, settings, artifacts)

# %% [markdown]
# ## Trajectories

# %%
figures.trajectories(study).show()

# %% [markdown]
# ## Three splits, independent of each other
#
# Every seed and every split has its own random stream, spawned from the seed. The training split
# fits the models; the test split gives the score. The published trial has no validation split;
# here one is drawn and only looked at.

# %%
figures.initial_states(study).show()

# %% [markdown]
# States and controls are standardised with the training split's moments; every loss in this study
# is a mean squared error in these units.

# %%
tables.standardisation(study).show()

# %% [markdown]
# ## Is the simulator right?

# %%
figures.integrator(study).show()

# %% [markdown]
# ## What was found

# %%
show_text(findings.data(study))
finish("01_data", figures=3)
