# make help lists the targets: what follows ## beside each. docs/reliability.md says what the trials show.

RUNS ?= 40
MINUTES ?= 2
SEED ?= 1
BROKER ?= kfake
VERSION ?= dev
faults = go run ./cmd/faults --broker $(BROKER) --seed $(SEED)

# What a change is tried with first: no broker, no training, no race detector.
fast = ./gnn/kernel/... ./gnn/snapshot ./gnn/safetensors ./gnn/attributes ./pipeline/setting ./pipeline/figure ./pipeline/event \
	./pipeline/structure ./pipeline/serve ./pipeline/store ./posterior ./posterior/calibration ./posterior/drift ./topics/wire ./topics/ledger ./topics/intake ./charts

.PHONY: help check test test-kafka crash chaos soak restarts world hostile digests pictures ci release image
help: ## this list
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/\1\t\2/p' Makefile | expand -t 12
check: ## below a minute: build, vet, format, the fast tests
	go build ./...
	go vet ./...
	@files=$$(go tool -modfile=.ci/tools.mod gofumpt -l .) && [ -z "$$files" ] || { echo "not formatted (gofumpt -w): $$files"; exit 1; }
	go test -short $(fast)
	go test ./cmd/gvbll ./cmd/lab -run "Rooms|Architecture|CommandLineIsDocumented|ChartKnowsTheFlags"
test: ## all tests, some minutes
	go test ./...
test-kafka: ## the tests that need a broker, on Apache Kafka
	.ci/kafka
crash: ## workers killed at every point: RUNS=200 BROKER=kfake|kafka
	$(faults) crash --runs $(RUNS)
chaos: ## workers and brokers disturbed: MINUTES=10 SEED=1 BROKER=kfake|kafka
	$(faults) chaos --minutes $(MINUTES)
soak: ## a steady rate: MINUTES=5 BROKER=kfake|kafka
	$(faults) soak --minutes $(MINUTES)
restarts: ## brokers restarted under load: RUNS=7 BROKER=kafka|kafka1
	$(faults) restarts --times $(RUNS)
world: ## topics deleted, recreated, shortened: BROKER=kfake|kafka|kafka1
	$(faults) world
hostile: ## floods of hostile records beside a stream
	$(faults) -v hostile --size 1
digests: ## digests of the images that Compose and the Dockerfile name, where their registry can be asked
	.ci/digests --write
pictures: ## the pictures of README and docs, anew
	.ci/pictures --write
ci: ## everything that a change must pass; .ci/run STAGE runs one stage
	.ci/run
release: ## archives, wheels, chart, sums and provenance in dist: VERSION=1.1.0 SIGNING_KEY=FILE GOVULNDB=URL
	@[ -n "$$GOVULNDB" ] || { echo "GOVULNDB is not set: give the URL of the Go vulnerability database, or of a copy"; exit 1; }
	VULNERABILITIES=required .ci/vulnerabilities
	.ci/release $(VERSION)
image: release ## the image of these binaries, with docker buildx: VERSION=1.1.0
	docker buildx build --target release --platform linux/amd64,linux/arm64 -t gvbll:$(VERSION) .
