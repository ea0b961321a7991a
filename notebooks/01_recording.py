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
# # 01 Recording
#
# **Question.** What do the models have to learn, and are the data what we think they are?
#
# The trajectories come from a file that the settings name. They are cut into windows as long as
# the horizon. Every seed deals whole trajectories out to the three splits anew, and draws its
# windows from them.

# %% tags=["parameters"]
profile = "reference"  # quick, reference or full
settings = {}  # needs data, as in {"data": "trajectories.csv"}
artifacts = ""  # where trained models are kept; empty: the project's artifacts folder

# %%
from clusterdyn import findings, open_study, tables
from clusterdyn.display import finish, show_text
from clusterdyn.figures import recording as figures

study = open_study(profile, settings, artifacts)

# %% [markdown]
# ## Windows

# %%
figures.windows(study).show()

# %% [markdown]
# ## Three splits

# %%
figures.distributions(study).show()

# %% [markdown]
# States and controls are standardised with the training split's moments; every loss in this study
# is a mean squared error in these units.

# %%
tables.standardisation(study).show()

# %% [markdown]
# ## What was found

# %%
show_text(findings.recording(study))
finish("01_recording", figures=2)
