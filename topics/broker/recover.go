package broker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// kfake writes the markers that end a transaction to one partition after the
// other. After a crash it treats transactions without a marker as aborted, but
// writes no marker. That breaks two guarantees. First, a commit that the crash
// interrupted is a commit in some partitions only. Second, a producer keeps its id,
// so readers that wait for the missing marker do not see its next transaction, and
// the commit of that one makes the aborted records visible after the next crash.
//
// So the transaction that is about to end is written to a journal first, and
// after a crash the missing markers are written: commits if the journal has the
// commit, aborts otherwise.

// journal holds the transaction that is about to end. One entry that is overwritten
// is enough, because kfake handles one request at a time. The file exists while a
// broker runs, and after one was killed.
type journal struct {
	file    *os.File
	pending bool // the entry is set
}

// ending is the journal's entry: a transaction and how it ends.
type ending struct {
	producer int64
	epoch    int16
	commit   bool
}

const (
	journalName = "ending.journal"
	entrySize   = 8 + 2 + 1 // producer, epoch, 1 for a commit; all zero for none
)

func openJournal(dir string) (*journal, error) {
	f, err := os.OpenFile(filepath.Join(dir, journalName), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &journal{file: f}, nil
}

// record makes the cluster write the journal. An entry stays until the next record
// is produced: until then no other transaction is open, so the entry is unambiguous.
func (j *journal) record(c *kfake.Cluster) {
	c.ControlKey(kmsg.EndTxn.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		end := r.(*kmsg.EndTxnRequest)
		err := j.write(ending{end.ProducerID, end.ProducerEpoch, end.Commit})
		j.pending = err == nil
		return nil, err, err != nil
	})
	c.ControlKey(kmsg.Produce.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		if !j.pending {
			return nil, nil, false
		}
		err := j.write(ending{})
		j.pending = err != nil
		if err != nil {
			c.KeepControl() // also when the request fails
		}
		return nil, err, err != nil
	})
}

func (j *journal) write(e ending) error {
	b := binary.BigEndian.AppendUint64(nil, uint64(e.producer))
	b = binary.BigEndian.AppendUint16(b, uint16(e.epoch))
	commit := byte(0)
	if e.commit {
		commit = 1
	}
	_, err := j.file.WriteAt(append(b, commit), 0)
	return err
}

// remove deletes the journal after a clean stop. If that fails, the next start
// only searches in vain for open transactions.
func (j *journal) remove() {
	_ = j.file.Close()
	_ = os.Remove(j.file.Name())
}

// recoverDir writes the markers that a killed broker did not write.
func recoverDir(dir string) error {
	path := filepath.Join(dir, journalName)
	entry, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var last ending
	if len(entry) == entrySize {
		last.producer = int64(binary.BigEndian.Uint64(entry))
		last.epoch = int16(binary.BigEndian.Uint16(entry[8:]))
		last.commit = entry[10] == 1
	}
	open, err := openTransactions(dir)
	if err != nil {
		return err
	}
	if len(open) > 0 {
		if err := writeMarkers(dir, open, last); err != nil {
			return err
		}
	}
	return os.Remove(path)
}

// openTransaction has records in a partition and no marker after them.
type openTransaction struct {
	topic     string
	partition int32
	producer  int64
	epoch     int16
}

// writeMarkers ends the transactions through a broker on a port that no client
// knows. It removes kfake's snapshots of the partitions, which would take
// precedence over the markers.
func writeMarkers(dir string, list []openTransaction, last ending) error {
	c, err := kfake.NewCluster(kfake.Ports(0), kfake.DataDir(dir))
	if err != nil {
		return err
	}
	defer c.Close()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, o := range list {
		req := kmsg.NewPtrWriteTxnMarkersRequest()
		req.Markers = []kmsg.WriteTxnMarkersRequestMarker{{
			ProducerID: o.producer, ProducerEpoch: o.epoch, Committed: last == ending{o.producer, o.epoch, true},
			Topics: []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: o.topic, Partitions: []int32{o.partition}}},
		}}
		res, err := req.RequestWith(ctx, client)
		if err != nil {
			return err
		}
		err = kerr.ErrorForCode(res.Markers[0].Topics[0].Partitions[0].ErrorCode)
		if err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) { // it was deleted
			return fmt.Errorf("%s partition %d: %w", o.topic, o.partition, err)
		}
	}
	c.Close()
	snapshots, err := filepath.Glob(filepath.Join(dir, "partitions", "*", "snapshot.json"))
	if err != nil {
		return err
	}
	for _, s := range snapshots {
		if err := os.Remove(s); err != nil {
			return err
		}
	}
	return nil
}

// openTransactions looks through the logs: partitions/TOPIC-N/BASE.dat, which
// is record batches, and BASE.idx, which has an entry for each.
func openTransactions(dir string) ([]openTransaction, error) {
	partitions, err := filepath.Glob(filepath.Join(dir, "partitions", "*-*"))
	if err != nil {
		return nil, err
	}
	var list []openTransaction
	for _, p := range partitions {
		name := filepath.Base(p)
		i := strings.LastIndexByte(name, '-')
		topic, err := url.PathUnescape(name[:i])
		if err != nil {
			return nil, err
		}
		n, err := strconv.ParseInt(name[i+1:], 10, 32)
		if err != nil {
			return nil, err
		}
		segments, err := filepath.Glob(filepath.Join(p, "*.dat"))
		if err != nil {
			return nil, err
		}
		slices.SortFunc(segments, func(a, b string) int { return int(base(a) - base(b)) })
		epochs := make(map[int64]int16) // of the open transactions, by producer
		for _, s := range segments {
			if err := scan(s, epochs); err != nil {
				return nil, fmt.Errorf("%s: %w", s, err)
			}
		}
		for producer, epoch := range epochs {
			list = append(list, openTransaction{topic, int32(n), producer, epoch})
		}
	}
	return list, nil
}

func base(segment string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSuffix(filepath.Base(segment), ".dat"), 10, 64)
	return n
}

// Offsets in a record batch of format 2 (kafka.apache.org/documentation,
// "Record Batch"), and the size of an entry in kfake's index.
const (
	lengthAt      = 8
	attributesAt  = 21
	producerAt    = 43
	epochAt       = 51
	headerSize    = 61
	transactional = 1 << 4
	control       = 1 << 5
	indexSize     = 15
)

// scan updates epochs, the open transactions by producer, from the batches of a
// segment. A batch at the end without an index entry was not acknowledged, so it
// is cut off: only the index says that a batch is transactional.
func scan(segment string, epochs map[int64]int16) error {
	f, err := os.OpenFile(segment, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	index, err := os.Stat(strings.TrimSuffix(segment, ".dat") + ".idx")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	indexed := int64(0)
	if err == nil {
		indexed = index.Size() / indexSize
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	header := make([]byte, headerSize)
	pos := int64(0)
	for ; indexed > 0 && pos+headerSize <= size; indexed-- {
		if _, err := f.ReadAt(header, pos); err != nil {
			return err
		}
		end := pos + lengthAt + 4 + int64(binary.BigEndian.Uint32(header[lengthAt:]))
		if end > size {
			break
		}
		pos = end
		producer := int64(binary.BigEndian.Uint64(header[producerAt:]))
		switch attributes := binary.BigEndian.Uint16(header[attributesAt:]); {
		case attributes&control != 0:
			delete(epochs, producer)
		case attributes&transactional != 0:
			epochs[producer] = int16(binary.BigEndian.Uint16(header[epochAt:]))
		}
	}
	if pos < size {
		return f.Truncate(pos)
	}
	return nil
}
