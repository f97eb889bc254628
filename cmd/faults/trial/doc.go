// Package trial tests the guarantee of gvbll work: every node is predicted exactly
// once, and every posterior follows from the inputs, whatever is killed, cut off, moved
// or slowed down meanwhile. It runs the program as processes, on kfake or on Apache
// Kafka, and reads what they publish as any consumer would.
//
//   - [Crash] kills workers at every named point of the commit and checkpoint paths, and
//     compares the published records with those of an undisturbed run.
//   - [Chaos] disturbs workers and brokers for a while, in an order that a seed decides,
//     and has gvbll audit replay the ledger afterwards.
//   - [Soak] sends at a steady rate to one worker, and checks that its memory, open files
//     and goroutines do not grow.
//   - [Retention] does the same with bases, expiry and inputs that are deleted, and kills workers.
//   - [Restarts] restarts brokers of Apache Kafka cleanly, under load. No worker may end.
//   - [World] plays scenarios in which Kafka or the disk is not as a worker would believe it,
//     and compares what workers and commands say and publish. limits.go has that of quotas, lateend.go
//     those of requests that come late, through a proxy (proxy.go), which disturbs kfake too.
//   - [Hostile] sends floods of hostile records beside a stream, and checks that the stream is
//     predicted, what becomes a dead letter, and how much memory the worker takes.
//
// setup.go and prepare.go hold what all of them share, must.go how they end with an error; process.go,
// sender.go, published.go, progress.go and watch.go run workers, send input, read output, follow the ledger and time predictions.
// Output is read by franz-go, which gvbll does not use. cluster.go, fake.go and kafka.go run the
// brokers and disturb them.
package trial
