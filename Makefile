# Every target installs what it needs first; `make help` lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTEST := .venv/bin/python -m pytest
CLUSTER ?=
DEMO_STATE := build/demo

.PHONY: help env demo test check lint types layers pure contract charts controlplane cluster-test up down format clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

env: ## Install the development environment into .venv
	@locks/sync

demo: env ## Run the quickstart fleet without a cluster and talk to it (KEEP=1 leaves it running)
	@rm -rf $(DEMO_STATE)
	@.venv/bin/fleetwright dev -f examples/quickstart --state $(DEMO_STATE) \
		--conversation examples/quickstart/conversation.toml $(if $(KEEP),--keep)

check: lint types layers pure contract charts ## Lint, types, layers and every fast test

lint: env
	@.venv/bin/ruff check . && .venv/bin/ruff format --check .

types: env
	@.venv/bin/mypy

layers: env
	@.venv/bin/lint-imports --no-cache >build/layers.log 2>&1 || { cat build/layers.log; exit 1; }

format: env ## Format the code
	@.venv/bin/ruff check --fix . && .venv/bin/ruff format .
