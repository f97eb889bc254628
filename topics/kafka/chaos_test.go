package kafka

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestChaos(t *testing.T) {
	ctx := context.Background()
	c, err := Dial(ctx, Config{Brokers: strings.Split(os.Getenv("GVBLL_KAFKA"), ",")})
	if err != nil {
		t.Fatal(err)
	}
	name := topic(t, c, 4)
	p := producer(t, c, ProducerConfig{TransactionalID: name})
	start := map[TopicPartition]int64{}
	for i := range int32(4) {
		start[TopicPartition{name, i}] = 0
	}
	stop := time.Now().Add(45 * time.Second)
	go func() {
		for _, n := range []string{"2", "3", "1"} {
			time.Sleep(4 * time.Second)
			exec.Command("/work/shared/tools/kafka-broker", "kill", "/tmp/kr/three/"+n).Run()
			fmt.Println("killed", n)
			time.Sleep(2 * time.Second)
			exec.Command("/work/shared/tools/kafka-broker", "start", "/tmp/kr/three/"+n).Run()
			fmt.Println("started", n)
		}
	}()
	done := make(chan int)
	total := make(chan int, 1)
	go func() {
		r := c.NewReader(start, ReaderConfig{})
		seen := map[string]int{}
		n, want := 0, -1
		var longest time.Duration
		for want < 0 || n < want {
			b := time.Now()
			recs, err := r.Poll(ctx)
			longest = max(longest, time.Since(b))
			if err != nil {
				t.Error("poll", err)
				break
			}
			for _, r := range recs {
				k := fmt.Sprint(r.Partition, " ", string(r.Value))
				seen[k]++
				if seen[k] > 1 {
					t.Error("twice", k)
				}
				n++
			}
			select {
			case want = <-total:
			default:
			}
		}
		fmt.Println("read", n, "longest poll", longest)
		done <- n
	}()
	i, unknown := 0, 0
	var longest time.Duration
	for time.Now().Before(stop) {
		var recs []Record
		for q := range int32(4) {
			recs = append(recs, Record{Topic: name, Partition: q, Value: fmt.Append(nil, i)})
		}
		b := time.Now()
		err := p.Commit(ctx, recs, "g"+name, map[TopicPartition]int64{{name, 0}: int64(i)})
		longest = max(longest, time.Since(b))
		if err != nil {
			if !errors.Is(err, ErrUnknown) {
				t.Fatal(err)
			}
			unknown++
			fmt.Println(err)
			for p.Restart(ctx) != nil {
			}
			landed := false
			for _, r := range committed(t, c, ReaderConfig{}, name, nil) {
				landed = landed || string(r.Value) == fmt.Sprint(i)
			}
			if !landed {
				continue
			}
		}
		i++
	}
	fmt.Println("committed", i, "unknown", unknown, "longest commit", longest)
	total <- 4 * i
	<-done
}
