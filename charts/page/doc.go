// Package page serves what a worker shows over HTTP: the live page for people, and
// the query API for programs. docs/api.md describes both.
//
//	GET  /                  the live page: stream, scores, pictures, latest predictions
//	GET  /node?id=ID        the page of one node
//	GET  /status            versions, flags in force, model, settings
//	GET  /pictures/NAME     an image as SVG: calibration, posterior, neighbours
//	GET  /page.css, page.js the pages' style and script
//	GET  /v1/nodes/{id}     what was served for a node, and what would be served now
//	GET  /v1/model          the model that serves
//	GET  /v1/posterior      the posterior, with its moments if asked for
//	GET  /v1/pool           what a pool of heads has learned
//	GET  /v1/windows        the last windows
//	GET  /v1/refused        refused events by reason, and the latest of them
//	GET  /v1/status         which graph this is, what the worker does, and its flags
//	POST /v1/predict        what would be served for a node that has not come
//	POST /v1/decide         an event sent into the stream, and the prediction that was committed for it
//	GET  /v1/openapi.json   the description of the API
//
// The worker reports windows, commits and lag to a [Server], which keeps a bounded
// history of them (history.go). For everything else, the server asks the engine
// through the function given to [Server.Attach]. It knows neither Kafka nor what
// drives the engine.
//
// Requests never change what is served or learned. The pages can be read without a
// script and load nothing from other hosts: pictures are drawn on the server, charts as a
// part of the page (chart.go), and heat maps as images (heat.go).
//
// The same templates make a file that needs nothing else: [Report], how a graph did over a
// time. It is made of a [Period] for each
// stretch of the time, which who reads the ledger fills; sums of periods are periods.
package page
