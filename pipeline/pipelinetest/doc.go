// Package pipelinetest has what tests of engines and of shards share: models, random streams, and
// oracles.
package pipelinetest
