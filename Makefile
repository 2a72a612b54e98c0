# Everything that people and CI do here, one target each; `make help` prints them.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help venv generate verify lock lint test-unit test demo bench images cluster clean
MAKEFLAGS += --no-print-directory

PYTHON := .venv/bin/python
# The part of the tests that needs neither the cluster nor a built binary.
UNIT := $(wildcard tests/unit tests/golden tests/property tests/docs)

# Without the address of an index, so that any mirror serves; existing pins stay unless they no longer fit.
LOCK := pip compile --quiet --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	--extra operator --extra mover --extra cli

help: ## print what there is to make
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 14

venv: ## make .venv with the locked dependencies
	@hack/venv

generate: venv ## write what is generated: CRDs, roles, reference pages
	@$(PYTHON) hack/generate/all

verify: venv ## fail when a generated file differs, or the layout does
	@$(PYTHON) hack/verify/all

lock: ## make requirements/*.lock anew from pyproject.toml (needs uv)
	@command -v uv >/dev/null || { echo "make lock: uv is not installed" >&2; exit 1; }
	@uv $(LOCK) --output-file requirements/runtime.lock pyproject.toml
	@uv $(LOCK) --group dev --output-file requirements/dev.lock pyproject.toml

lint: ## ruff, mypy, import contracts, gofmt, go vet, staticcheck
	@hack/test lint

test-unit: venv ## the tests that need no cluster, in seconds
	@$(PYTHON) -m pytest -q $(UNIT)

test: ## everything: checks, all tests, the real cluster; one line of totals
	@hack/test all

demo: ## bring up a cluster and run the main job on it
	@hack/demo

bench: venv ## measure on the cluster and write build/bench.json
	@PYTHONPATH=hack $(PYTHON) -m bench

images: ## build the images into the cache
	@hack/images build

cluster: ## bring up the test cluster (hack/cluster --help says more)
	@hack/cluster up

clean: ## remove what was built in this tree; the cache and the cluster stay
	@rm -rf build dist .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	@find operator tests hack -name __pycache__ -type d -prune -exec rm -rf {} +
