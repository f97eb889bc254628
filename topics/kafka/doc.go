// Package kafka adds to kafka-go what exactly-once processing needs: a [Reader]
// of the committed records of explicitly assigned partitions, a [Producer] that
// works in transactions or idempotently, and a [Membership] that elects one owner
// among the members of a consumer group.
//
// kafka-go carries the requests. Its own Reader does not filter aborted records,
// and its Writer knows no transactions (KIP-98).
//
//	client.go       connections; catalog.go topics and leaders, offsets.go offsets
//	reader.go       Reader; fetch.go its requests, committed.go the filter of
//	                aborted records, stored.go batches as brokers store them,
//	                partition.go the state of one partition, lost.go when a log
//	                is no longer the one that was read
//	shared.go       what the readers of many cells ask for together; session.go
//	                their fetch sessions
//	exchange.go     the requests whose answers kafka-go does not decode
//	trouble.go      what is being retried, for the log and for readiness
//	producer.go     Producer; batch.go record batches, produce.go and
//	                transaction.go its requests
//	membership.go   election of an owner
//	topics.go       creating topics, their partitions and offsets
//	retry.go        which errors are transient, and how they are retried
//	security.go     TLS and SASL; bearer.go tokens
//	partitioner.go  the partition of a key, as Java's clients compute it
package kafka
