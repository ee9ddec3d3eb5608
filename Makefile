# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# `make` lists the targets. Each installs what it needs: Python tools into .venv and .nox.

.PHONY: help demo picture test quick soak lint unit library emulator integration controllers faults eda molecule fuzz sanity galaxy docs release tarball publish-test publish bench figures clean
.DEFAULT_GOAL := help

VENV := .venv/complete
# Where the collection is installed; what it depends on serves load balancers alone.
COLLECTIONS := .nox/collections
NOX := .venv/bin/nox
QUOTED = $(foreach stage,$(STAGES),'$(stage)')
# Demo and benchmarks see the collection as installed, and may not reach a real metadata service.
RUN := PATH="$(CURDIR)/.venv/bin:$$PATH" \
       ANSIBLE_COLLECTIONS_PATH="$(CURDIR)/$(COLLECTIONS)" \
       PYTHONPATH="$(CURDIR)/tests/guard"

INSTALL := PATH="$(CURDIR)/.venv/bin:$$PATH" \
       scripts/install-collection $(COLLECTIONS) --no-deps >/dev/null

# Some machines set it. Each start of Python would then compile all that it imports: three times its CPU time.
unexport PYTHONDONTWRITEBYTECODE

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

demo: $(VENV) ## show a small fleet during a maintenance, without Azure
	@$(INSTALL)
	@$(RUN) python demo/run.py

picture: $(VENV) ## draw docs/images/timeline.svg again from a run
	@$(INSTALL)
	@$(RUN) python demo/timeline.py docs/images/timeline.svg

test: $(VENV) ## run every check and test once, where it can differ: what a change needs; STAGES="lint unit"
	@.venv/bin/python scripts/stages.py $(QUOTED)

quick: $(VENV) ## lint what changed since main, and run the unit tests that name it; TEST=path for more
	@.venv/bin/python scripts/quick.py $(TEST)

soak: $(VENV) ## run all on each Python and core, with all repetitions: what a release needs; STAGES="unit fuzz"
	@.venv/bin/python scripts/stages.py --soak $(QUOTED)

# TEST=path names tests. They run without a look at what is installed, and so begin at once.
lint unit emulator integration faults eda galaxy: $(VENV)
	@$(NOX) $(if $(TEST),--no-install) --session $@ -- $(TEST)
library: $(VENV)
	@$(NOX) --session oldest edge
lint: ## run only the linters and the type checks
unit: ## run only the unit tests, on the newest Python; TEST=path for one file or directory
library: ## run only the unit tests of the code for VMs, on the oldest Python, and in part on the others
emulator: ## run only the unit tests of the emulator, on its oldest supported Python
integration: ## run only the playbooks against the emulator, from the installed tarball; TEST=path
faults: ## test every fault with every consumer, as root, and write docs/fault-matrix.md; TEST=path
eda: ## run only the rulebooks, in a real ansible-rulebook
sanity: $(VENV) ## run only ansible-test sanity, on each ansible-core; CORE=2.16 for one
	@$(NOX) --session $(if $(CORE),"sanity($(CORE))",sanity)
galaxy: ## run only the checks of the tarball: its content, and the checks of Galaxy
docs: $(VENV) ## build the documentation site in .nox/site/html
	@$(NOX) --session $@

fuzz: $(VENV) ## test all readers of documents with a million mutated documents; SEED=x repeats a run
	@$(NOX) --session fuzz -- $(if $(SEED),--seed $(SEED)) $(if $(LIFE),--life $(LIFE))

controllers: $(VENV) ## run all tests of AWX and ansible-runner; AWX_START or AWX_URL, AWX_TOKEN set the AWX
	@$(NOX) --session controllers -- -m ""

COMMAND := test
molecule: $(VENV) ## run the Molecule scenarios on test hosts with systemd, as root; SCENARIO=x for one
	@$(NOX) --session molecule -- $(COMMAND) $(if $(SCENARIO),--scenario-name $(SCENARIO),--all)

release: $(VENV) ## show what a release would change; VERSION=x.y.z CONFIRM=yes makes the release
	@.venv/bin/python scripts/release.py $(if $(VERSION),--version $(VERSION)) $(if $(filter yes,$(CONFIRM)),--confirm)

tarball: $(VENV) ## build the tarball, with the same bytes from the same commit
	@PATH="$(CURDIR)/.venv/bin:$$PATH" python scripts/build_collection.py .

publish-test: $(VENV) ## publish the tarball to a Galaxy server on loopback, install it from there, and verify it
	@$(NOX) --session publish_test

publish: $(VENV) ## publish the tarball of a release to Galaxy; VERSION=x.y.z
	@.venv/bin/ansible-galaxy collection publish maintops-scheduled_events-$(VERSION).tar.gz

bench: $(VENV) ## run the benchmarks
	@$(INSTALL)
	@missed=0; for benchmark in benchmarks/*.py; do \
	    echo "== $$benchmark"; $(RUN) python "$$benchmark" || missed=1; \
	done; exit $$missed

RUNS := 3
figures: $(VENV) ## measure, and write docs/measurements.md and its picture; OPERATOR=seoperator2.py, RUNS=2
	@$(INSTALL)
	@$(RUN) python scripts/figures.py --measure $(RUNS) $(if $(OPERATOR),--operator $(OPERATOR))

clean: ## remove all files that the targets created
	rm -rf .venv .nox .ansible .hypothesis .mypy_cache .pytest_cache .ruff_cache tests/output
	rm -f changelogs/.plugin-cache.yaml maintops-scheduled_events-*.tar.gz
	find . -name __pycache__ -prune -exec rm -rf {} +

$(VENV): pyproject.toml scripts/make-venv
	@echo "Making .venv ..."
	@scripts/make-venv
