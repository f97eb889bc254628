// Package page is what a worker shows over HTTP: the live page at /, for people,
// and the query API under /v1, for programs. docs/api.md tells of both.
//
// A [Server] is told by its methods what happens (windows, commits, lag) and
// keeps a bounded part of it; what only the engine knows it asks the engine,
// through the function that [Server.Attach] is given. It knows neither Kafka nor
// who drives the engine.
//
// Nothing is written, and nothing that is asked changes what is served. The page
// needs no script to be read and nothing from elsewhere: pictures are drawn on
// the server.
package page
