// Package pipelinetest has what tests of engines share: models, random streams, and
// oracles.
package pipelinetest
