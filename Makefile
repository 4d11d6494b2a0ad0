# Cutroom. `make help` lists the targets; `make demo` is the one to start with.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help differential demo register up down reset check test test-all test-partitions lint fmt generate bench burst partition-stress soak soak-mutations exercise mutations fuzz docs-check build images test-deploy scene scenario bootstrap fork sync clean

MODULES := ./shared/... ./shared/azq/... ./shared/azq/cmd/azq/... ./shared/azstore/... ./webrole/... ./workerrole/... ./e2e/... ./examples/...
export TESTFLAGS

# Extra flags for every `go test`, such as -v or -run.
TESTFLAGS ?=
# How long `make fuzz` fuzzes each target.
FUZZTIME ?= 30s
# How long `make soak` runs, and what decides its schedule; 0 draws a seed.
SOAKTIME ?= 30m
SEED ?= 0

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

export FILE DEMO_EXIT WORKERS
demo: ## one command: install, build, start, upload FILE (or a generated clip), watch it become playable; DEMO_EXIT=1 stops when ready
	@scripts/bootstrap run
	@scripts/gorun demo

export EVENT N
register: ## register the runners of FILE (CSV), or N made-up ones (50000), for EVENT in the stack of `make up`
	@scripts/gorun register

up: ## start Azurite, the web role and workers in the background (WORKERS=3; 1..4 as the queues want; default 2); state in .run/
	@scripts/bootstrap run
	@scripts/gorun up

down: ## stop what `make up` started, without loss
	@scripts/gorun up -down

reset: ## empty a running stack within seconds, on the same ports: videos, messages, rows, races; ticks are in the browser
	@scripts/gorun up -reset

check: ## before each commit: lint, and the tests that need no more than the emulator; minutes
	@scripts/bootstrap test
	@scripts/test check

test: ## everything that protects a promise: unit, emulator, crash and browser tests
	@scripts/bootstrap test
	@scripts/test test

test-all: ## that, and what docs/testing.md says it leaves out: for the night, and for a release
	@scripts/bootstrap test
	@scripts/test all

# These tests count requests, of which the model makes more: pages are cut.
COUNTING := TestImportOfAWholeField|TestThePapersExample|TestThePapersRace|TestMoments|TestFinishInAVideo|TestImportIsWholeTransactions|TestTheRareWordDecidesTheCost|TestQueryClasses
test-partitions: ## tests of shared, both roles and crashes, with tables behind a model of Azure's partition servers (T10)
	@scripts/bootstrap test
	@scripts/gorun emulator -partitions go test -count=1 -p 1 -timeout 30m -skip '^($(COUNTING)|TestBurstWithoutWorkers)$$' $(TESTFLAGS) ./shared/... ./shared/azq/... ./shared/azstore/... ./webrole/... ./workerrole/... ./e2e/crash

differential: ## N films (200) as people have them, drawn anew: does what comes out have what one pass of ffmpeg shows? SEED=S for those from a seed on
	@scripts/bootstrap test
	go test -count=1 -timeout 0 -parallel 4 ./e2e/differential $(TESTFLAGS) -args -films $(or $(N),200) -seed $(SEED)

lint: ## gofmt, go vet, staticcheck, import directions, go.mod without go.work
	@scripts/lint

fmt: ## format the Go sources
	gofmt -w docs shared webrole workerrole e2e examples

generate: ## regenerate what is generated: the API from its parts, the page, quoted code and diagrams of docs/patterns
	go generate $(MODULES)

bench: ## print ratios measured in one run
	@scripts/bootstrap run
	@scripts/gorun bench

burst: ## upload 60 videos, six at once, to workers that follow the queues, and to fixed fleets; a plot in .run/; needs root
	@scripts/bootstrap run
	@scripts/gorun burst

partition-stress: ## which PartitionKey carries which load (T9, S2, S3): table, plot and words in .run/; a model, or AZURE_STORAGE_CONNECTION_STRING
	@scripts/bootstrap run
	@scripts/gorun partition-stress

export NAME SCENE_FAST
scene: ## list the scenes, or play NAME in the terminal, step by step on real storage; SCENE_FAST=1 makes no pauses
	@scripts/bootstrap run
	@scripts/gorun scene

scenario: ## the paper's scenario Q11: make scene NAME=papers-scene
	@$(MAKE) --no-print-directory scene NAME=papers-scene

soak: ## load and faults for SOAKTIME (default 30m), drawn from SEED; then a check of everything from outside, and a page
	@scripts/bootstrap run
	@go test -count=1 -timeout 0 -v -run '^TestSoak$$' ./e2e/soak -args -time '$(SOAKTIME)' -seed '$(SEED)'

soak-mutations: ## build the roles with five mistakes, one by one, and tell which of them a soak of two minutes finds
	@scripts/bootstrap run
	@go test -tags mutations -count=1 -timeout 0 -v -run '^TestSoakFindsMistakes$$' ./e2e/soak -args -time 2m -seed 1 -settle 90s

export CHECK
exercise: ## twelve exercises with a guard missing: the list; N=3 begins one in a clone; N=3 CHECK=1 says green, or the next hint
	@scripts/bootstrap run
	@scripts/gorun exercise

export RUN
mutations: ## make the mistakes of e2e/mutations one by one, and tell whether the tests find them; RUN=regexp chooses some
	@scripts/bootstrap test
	@scripts/gorun mutations -run "$$RUN"

fuzz: ## fuzz every fuzz target for FUZZTIME (default 30s)
	@scripts/fuzz '$(FUZZTIME)'

docs-check: ## every link, make target and variable that the documentation names exists
	go test -count=1 -v -run '^TestDocs' ./e2e

build: ## build both roles into bin/
	go build -trimpath -o bin/ ./webrole ./workerrole

images: ## build the container images (Docker or buildah)
	@scripts/images

test-deploy: ## try deploy/: alerts, chart, images twice, containers and pods with a read-only root; needs root, promtool, helm, etcd, kubectl, terraform, buildah, podman, podman-compose, catatonit (skips what is missing; REQUIRE=1 fails then; CLIP=file is sent instead of generated clips)
	@scripts/test-deploy

bootstrap: ## install what `make test` needs
	@scripts/bootstrap test

export MODULE NAME WITHOUT ONLY
fork: ## rename a fresh clone: make fork MODULE=example.com/acme/reel NAME=reel [WITHOUT="clips seek" | ONLY=core]
	@scripts/gorun fork -module "$$MODULE" -name "$$NAME" -without "$$WITHOUT" -only "$$ONLY"

export UPSTREAM REF
sync: ## in a fork: merge commit REF (HEAD) of UPSTREAM (path, address or remote; "upstream") as `make fork` made it
	@scripts/gorun sync -upstream "$$UPSTREAM" -ref "$$REF"

clean: down ## stop everything and remove .run/ (all uploaded videos), bin/ and .tools/
	rm -rf .run bin .tools
