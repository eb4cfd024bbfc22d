# Every target installs its dependencies first. `make help` lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/bash
# The environment variable `PYTHON` chooses the interpreter of .venv (locks/sync).
VENV_PYTHON := .venv/bin/python
unexport PYTHONSAFEPATH PYTHONOPTIMIZE PYTHONPATH

.PHONY: help env demo test test-cluster test-all check lint types layers unit process controlplane faults sweep walk bench-operator bench-agent bench-turn bench-compaction bench-gateway bench-terminal bench-workspace bench-wake bench-smoke bench-compare cluster up down status format generated pictures krew krew-archives locks clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

env: ## Install the development environment into .venv
	@locks/sync

demo: env ## Run the quickstart without a cluster and talk to it (TEAM=1: the research team; KEEP=1 leaves it running)
	@example=examples/$(if $(TEAM),research-team,quickstart) && state=$(if $(KEEP),build/demo,"$$(mktemp -d -t fleetwright-demo-XXXXXX)") && \
		$(if $(KEEP),,trap 'rm -rf "$$state"' EXIT &&) \
		.venv/bin/fleetwright dev -f $$example --state "$$state" \
		--conversation $$example/conversation.toml $(if $(KEEP),--keep)

test: env ## Run the tests that need no Kubernetes, without their longest forms, in about eight minutes
	@$(VENV_PYTHON) -m tests.rings test

test-cluster: env ## Run the tests that need Kubernetes: operator, faults and core scenarios; builds Kubernetes the first time
	@$(VENV_PYTHON) -m tests.rings test-cluster

test-all: env ## Run everything, in its longest form (RESUME=1 skips rings that are green on this tree)
	@$(VENV_PYTHON) -m tests.rings test-all

check: env ## Check lint, types and layers, and run the unit tests, in about two minutes
	@$(VENV_PYTHON) -m tests.rings check

unit: env ## Run the tests that start no process and open no socket
	@$(VENV_PYTHON) -m tests.rings unit

process: env ## Run the tests that start processes or open sockets, without a control plane
	@$(VENV_PYTHON) -m tests.rings helm agent process charts commands

controlplane: env ## Test the operator against a real control plane
	@$(VENV_PYTHON) -m tests.rings controlplane

faults: env ## Test the operator during outages, kills and bursts on a real control plane
	@$(VENV_PYTHON) -m tests.rings faults

sweep: env ## Inject every fault at every write and event of the operator (SHARE=0.1 for a tenth of them)
	@$(VENV_PYTHON) -m e2e.faults $(if $(SHARE),--share $(SHARE))

walk: env ## Set, change, unset and restore every property of every kind (SEED=… repeats a walk)
	@$(VENV_PYTHON) -m e2e.walk $(if $(SEED),--seed $(SEED))

bench-operator: env ## Benchmark the operator against a plain client (PARTS=latency,burst,… for some; MANY=0 without the large burst)
	@$(VENV_PYTHON) -m tests.bench.operator_bench $(if $(PARTS),--parts $(PARTS)) $(if $(MANY),--many $(MANY))

bench-agent: env ## Benchmark the agent's server against the a2a-sdk's own server (PARTS=start,rates,… for some)
	@$(VENV_PYTHON) -m tests.bench.agent_bench $(if $(PARTS),--parts $(PARTS))

bench-turn: env ## Benchmark the overhead of a turn besides its model: durability, recall, first token, prompt, compaction, memory, long answers (PARTS=durable,… for some)
	@$(VENV_PYTHON) -m tests.bench.turn_bench $(if $(PARTS),--parts $(PARTS))

bench-compaction: env ## Compare compaction with LangChain's and deepagents' on the same fixtures (PARTS=facts,… for some, QUICK=1 for small samples, SEED=… for others)
	@$(VENV_PYTHON) -m tests.bench.compaction_bench $(if $(PARTS),--parts $(PARTS)) $(if $(QUICK),--quick) $(if $(SEED),--seed $(SEED))

bench-gateway: env ## Benchmark the gateway in front of an agent beside direct calls (PARTS=latency,… for some)
	@$(VENV_PYTHON) -m tests.bench.gateway_bench $(if $(PARTS),--parts $(PARTS))

bench-terminal: env ## Benchmark fleetwright chat while text streams: bytes, echo of keys, processor, memory, start (PARTS=stream,… for some)
	@$(VENV_PYTHON) -m tests.bench.terminal_bench $(if $(PARTS),--parts $(PARTS))

bench-workspace: env ## Benchmark the runner of a workspace beside the same work in one process (PARTS=memory,… for some)
	@$(VENV_PYTHON) -m tests.bench.workspace_bench $(if $(PARTS),--parts $(PARTS))

bench-wake: env ## Benchmark wakes, approvals and withdrawn permissions on the local cluster (PARTS=wake,approvals,withdrawal; TIMES=30)
	@$(VENV_PYTHON) -m tests.bench.wake_bench $(if $(PARTS),--parts $(PARTS)) $(if $(TIMES),--times $(TIMES))

bench-smoke: env ## Run the smallest form of each benchmark once, for its correctness (BENCHES="agent turn" for some)
	@$(VENV_PYTHON) -m tests.bench.smoke $(BENCHES)

bench-compare: env ## Compare the figures of this checkout with those of another commit (BASE=… PARTS="agent:rates,start turn"; RUNS=5; OWN=1: each commit runs its own benchmarks)
	@$(VENV_PYTHON) -m tests.bench.compare --base "$(BASE)" --parts "$(PARTS)" $(if $(RUNS),--runs $(RUNS)) $(if $(OWN),--own-code)

cluster: env ## Run all scenarios on a real cluster
	@$(VENV_PYTHON) -m tests.rings cluster

up: env ## Create a cluster with the operator and the quickstart (CLUSTER=existing|kind|local)
	@$(VENV_PYTHON) -m e2e.cluster up $(if $(CLUSTER),--provider $(CLUSTER))

down: env ## Delete what `make up` created
	@$(VENV_PYTHON) -m e2e.cluster down $(if $(CLUSTER),--provider $(CLUSTER))

status: env ## Show what `make up` has running
	@$(VENV_PYTHON) -m e2e.cluster status $(if $(CLUSTER),--provider $(CLUSTER))

lint: env ## Check lint and formatting
	@.venv/bin/ruff check --quiet . && .venv/bin/ruff format --quiet --check . && echo "lint: clean"

types: env ## Check types
	@.venv/bin/mypy

layers: env ## Check which package may import which
	@.venv/bin/lint-imports --no-cache

format: env ## Format the code
	@.venv/bin/ruff check --quiet --fix . ; .venv/bin/ruff format --quiet .

generated: env ## Regenerate agent-config.schema.json from the runtime's model, and the chart's copies of the CRDs
	@cp crds/*.yaml charts/fleetwright/files/crds/
	@$(VENV_PYTHON) -c 'import json; from fleetwright_agent.config.agent import AgentConfig; print(json.dumps(AgentConfig.model_json_schema(by_alias=True), indent=2))' >agent_image/agent-config.schema.json

pictures: env ## Record the pictures of the terminal in docs/pictures anew
	@PYTHONPATH=. $(VENV_PYTHON) docs/pictures/record.py

krew-archives: env ## Build the archives for krew in build/krew (VERSION=v1.2.3, PLATFORMS="linux-amd64 …" for some)
	@$(VENV_PYTHON) cli/krew/archives.py --version "$(VERSION)" --output build/krew $(PLATFORMS)

krew: env ## Write build/krew/fleetwright.yaml from the archives of a release (VERSION=v1.2.3 URL=… HOMEPAGE=… ARCHIVES="…")
	@$(VENV_PYTHON) cli/krew/manifest.py --version "$(VERSION)" --url "$(URL)" --homepage "$(HOMEPAGE)" --output build/krew $(ARCHIVES)

locks: env ## Regenerate the lock files
	@UV=$$(ls -d $${XDG_CACHE_HOME:-$$HOME/.cache}/fleetwright/uv-*/bin/uv | head -1) locks/compile

clean: ## Remove build results, but not the cache of built programs
	@test ! -d build/cluster || { echo "a cluster of this repository is running; run make down first"; exit 1; }
	@rm -rf build .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis
