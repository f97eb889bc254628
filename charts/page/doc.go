// Package page serves what a worker shows over HTTP: the live page for people, and
// the query API for programs. docs/api.md describes both.
//
// The worker reports windows, commits and lag to a [Server], which keeps a bounded
// history of them (history.go). For everything else, the server asks the engine
// through the function given to [Server.Attach]. It knows neither Kafka nor what
// drives the engine.
//
// Requests never change what is served or learned. The pages can be read without a
// script and load nothing from other hosts: charts are a part of the page (chart.go).
//
// The same templates make a file that needs nothing else: [Report], how a graph did over a
// time. It is made of a [Period] for each
// stretch of the time, which who reads the ledger fills; sums of periods are periods.
package page
