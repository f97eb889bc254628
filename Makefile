# What takes longer than a test: docs/reliability.md says what it shows.
#
#   make test                                      the tests
#   make test-kafka                                the tests that need a broker, on Apache Kafka
#   make crash RUNS=200 BROKER=kfake|kafka         workers killed at every point
#   make chaos MINUTES=10 SEED=1 BROKER=kfake|kafka
#   make soak MINUTES=5 BROKER=kfake|kafka         a steady rate
#   make restarts RUNS=7 BROKER=kafka|kafka1       brokers restarted under load
#   make world BROKER=kfake|kafka|kafka1           topics deleted, recreated, shortened
#   make hostile                                   floods of hostile records beside a stream
#   make pictures                                  the pictures of README and docs, anew
#   make ci                                        everything that a change must pass
#   make release VERSION=1.0.0 GOVULNDB=URL        archives, chart, sums and provenance in dist
#   make image VERSION=1.0.0                       the image of these binaries, with docker buildx

RUNS ?= 40
MINUTES ?= 2
SEED ?= 1
BROKER ?= kfake
VERSION ?= dev
faults = go run ./cmd/faults --broker $(BROKER) --seed $(SEED)

.PHONY: test test-kafka crash chaos soak restarts world hostile pictures ci release image
test:
	go test ./...
test-kafka:
	.ci/kafka
crash:
	$(faults) crash --runs $(RUNS)
chaos:
	$(faults) chaos --minutes $(MINUTES)
soak:
	$(faults) soak --minutes $(MINUTES)
restarts:
	$(faults) restarts --times $(RUNS)
world:
	$(faults) world
hostile:
	$(faults) -v hostile --size 1
pictures:
	.ci/pictures --write
ci:
	.ci/run
release:
	@[ -n "$$GOVULNDB" ] || { echo "GOVULNDB is not set: give the URL of the Go vulnerability database, https://vuln.go.dev, or of a copy"; exit 1; }
	VULNERABILITIES=required .ci/vulnerabilities
	.ci/release $(VERSION)
image: release
	docker buildx build --target release --platform linux/amd64,linux/arm64 -t gvbll:$(VERSION) .
