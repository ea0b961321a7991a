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
# # 03 Significance
#
# **Question.** Is the idea better or worse than the full sweep, by how much, and how sure can one
# be with this many seeds?
#
# Both arms run on the same seeds, so the unit is the paired difference
# $\Delta_s = \mathrm{MSE}_s^{\text{idea}} - \mathrm{MSE}_s^{\text{baseline}}$. Under the null
# hypothesis each difference could as well have the other sign; the sign-flip test counts over all
# sign patterns, or over a random sample of them where there are too many. Counting all patterns of
# $n$ pairs, its smallest two-sided p is $2/2^n$.

# %% tags=["parameters"]
profile = "reference"  # quick, reference or full
settings = {}  # fields of the config to replace, such as {"seeds": [0, 1, 2, 3]}
artifacts = ""  # where trained models are kept; empty: the project's artifacts folder

# %%
from clusterdyn import findings, open_study, tables
from clusterdyn.display import finish, show_text
from clusterdyn.figures import significance as figures

study = open_study(profile, settings, artifacts)

# %% [markdown]
# ## Every pair

# %%
tables.pairs(study).show()

# %%
figures.slope_graph(study).show()

# %%
figures.difference_plot(study).show()

# %% [markdown]
# ## Tests, intervals and effect sizes
#
# The published report calls the half-width of its interval "mde". That is not the effect that such
# a trial would detect with 80 % power; both are given, each under its own name.

# %%
tables.inference(study).show()

# %% [markdown]
# ## What was found

# %%
show_text(findings.significance(study))
finish("03_significance", figures=2)
