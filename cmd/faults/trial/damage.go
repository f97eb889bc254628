package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"github.com/gvbll/gvbll/topics/kafka"
)

func cutShort(ctx context.Context, v *served) {
	v.manyWindows(ctx)
	v.halt()
	v.endTransactions(ctx)
	var whole, left []kafka.Record
	must(v.setup.Client.ReadAll(ctx, v.names.Ledger, func(r *kafka.Record) {
		whole = append(whole, kafka.Record{Topic: r.Topic, Partition: r.Partition, Value: bytes.Clone(r.Value), Time: r.Time})
	}))
	for _, r := range whole {
		var of struct{ Window int64 }
		must(json.Unmarshal(r.Value, &of))
		if of.Window < 5 {
			left = append(left, r)
		}
	}
	v.replace(ctx, v.names.Ledger, left)
	want := "ends before window 5"
	if err := v.audit(ctx); err == nil || !strings.Contains(err.Error(), want) {
		fail("audited with error %w, want one that says %q", err, want)
	}
	v.replace(ctx, v.names.Ledger, whole)
	v.published(ctx, v.sent)
	must(v.audit(ctx))
}

func outputsDivided(ctx context.Context, v *served) {
	v.serve(ctx, 100)
	for _, topic := range []string{v.names.Predictions, v.names.DeadLetters} {
		must(need(v.admin.UpdatePartitions(ctx, partitions+2, topic)).Error())
	}
	more := func() {
		v.out.poison(v.names.Nodes, v.sent)
		v.more(ctx, 100)
	}
	more() // by the worker that ran before
	v.halt()
	v.begin(ctx)
	more()
	v.finished(ctx, "undecodable", "undecodable")
}
