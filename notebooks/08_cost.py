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
# # 08 Cost
#
# **Question.** What does training cost, beside other ways to do it and as it grows?
#
# A population of models is trained side by side, with a gradient written by hand. It is timed
# against a plain loop that trains one model at a time with PyTorch's own gradient, against the same
# training in JAX, and against the bare kernels: the matrix products and activations of the full
# sweep, and nothing else. They take turns in one run, and the first three train the same models on
# the same data.

# %% tags=["parameters"]
profile = "full"  # quick or full; reference does not measure the cost
settings = {}  # fields of the config to replace, such as {"cost_repeats": 5}
artifacts = ""  # where results are kept; empty: the project's artifacts folder

# %%
from clusterdyn import open_study
from clusterdyn.bench import findings, tables
from clusterdyn.display import finish, show_text
from clusterdyn.figures import cost as figures

study = open_study(profile, settings, artifacts)

# %%
show_text(findings.machine(study))

# %% [markdown]
# ## Side by side

# %%
figures.cost_ratios(study).show()

# %%
tables.bench_targets(study.cost.bench).show()

# %%
tables.bench_times(study.cost.bench).show()

# %% [markdown]
# ## Growth
#
# The time of an optimiser step is close to a power of each size once the size is large; below, the
# cost of calling the kernels counts. Fitted is $t = c\,x^a$ on logarithms.

# %%
figures.cost_scaling(study).show()

# %%
tables.scaling(study).show()

# %% [markdown]
# ## Memory
#
# A population that is too large for the memory is trained in chunks, one after another.

# %%
figures.cost_chunks(study).show()

# %% [markdown]
# ## Wall-clock
#
# A schedule that moves fewer nodes saves time only as far as the machine lets it: small products
# cost calls, scattered nodes cost copies, and a schedule that looks at the state pays for looking.
# Below, every schedule makes the same number of sweeps.

# %%
figures.cost_wall_clock(study).show()

# %%
tables.wall_clock(study.cost.wall_clock).show()

# %%
tables.devices(study.cost.wall_clock).show()

# %% [markdown]
# ## Where the report's time goes

# %%
tables.stage_seconds(study).show()

# %% [markdown]
# ## What was found

# %%
show_text(findings.cost(study))
finish("08_cost", figures=4)
