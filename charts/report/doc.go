// Package report sums up how a graph did over a time, and writes it as one HTML file that
// needs nothing else: to look at, to print and to mail.
//
// It knows no Kafka. Who reads the ledger fills a [Period] for each stretch of time; sums
// of periods are periods.
package report
