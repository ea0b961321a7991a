# Each target sets up all that it needs; a second run sets up nothing.

PYTHON ?= python3
PROFILE ?= full
VENV := .venv
RUN := $(VENV)/bin/python

.DEFAULT_GOAL := help
.PHONY: help report test lab bench format clean

help:
	@echo "make report [PROFILE=quick|reference|full] [OUTPUT=DIR]   run the study, write the report"
	@echo "             to reports, or to reports-quick for PROFILE=quick, unless OUTPUT says where"
	@echo "make test    check the code"
	@echo "make lab [LAB_ARGS=...]   explore the notebooks in JupyterLab"
	@echo "make bench   time the population trainer against a plain loop, JAX and the bare kernels"
	@echo "make format  format and lint the code"
	@echo "make clean   remove the environment and the trained models"

report: $(VENV)/installed
	$(RUN) -m clusterdyn report --profile "$(PROFILE)" $(if $(OUTPUT),--output "$(OUTPUT)")

test: $(VENV)/installed-dev
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m pytest

lab: $(VENV)/installed
	@echo "Pairing the notebooks: cells come from notebooks/*.py, outputs stay"
	$(VENV)/bin/jupytext --quiet --update --to ipynb notebooks/*.py
# jupytext.toml must lie below the server's root to be found; without it nothing is paired.
	$(VENV)/bin/jupyter lab --ServerApp.root_dir=. --LabApp.default_url=/lab/tree/notebooks $(LAB_ARGS)

bench: $(VENV)/installed-bench
	$(RUN) -m clusterdyn bench

format: $(VENV)/installed-dev
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

clean:
	rm -rf $(VENV) artifacts

$(VENV)/installed: requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "clusterdyn needs Python 3.11 or newer; this is $$($(PYTHON) --version). Set PYTHON=..."; exit 1; }
	@echo "Setting up $(VENV): the pinned requirements and this package (a few minutes, once)"
	@test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	@$(RUN) -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@$(RUN) -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

$(VENV)/installed-bench: $(VENV)/installed
	@echo "Adding JAX"
	@$(RUN) -m pip install --quiet --disable-pip-version-check --editable ".[bench]"
	@touch $@

$(VENV)/installed-dev: $(VENV)/installed
	@echo "Adding the test tools"
	@$(RUN) -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	@touch $@
