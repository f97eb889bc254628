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

// kfake writes the markers that end a transaction one partition after the
// other, and after a crash takes transactions without a marker for aborted, but
// writes none. Left at that, a commit that the crash cut short is one in some
// partitions only; and since a producer keeps its id, the next one of its
// transactions is hidden from readers, who wait for the marker, and its commit
// brings the aborted records back at the crash after. So what is being ended
// is noted in a journal beforehand, and after a crash the markers that are
// missing are written: of a commit if it was noted, else of an abort.

// journal holds the transaction that is being ended, in one entry that is
// written over: kfake does one thing at a time. That the file is there says
// that a broker is running, or was killed.
type journal struct {
	file    *os.File
	pending bool
}

// ending is what the journal's entry says of a transaction.
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

// keep has the journal kept by the cluster. A note stays until something new is
// produced: until then there is nothing that it could be mistaken to be about.
func (j *journal) keep(c *kfake.Cluster) {
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
			c.KeepControl() // though this request is not answered
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

// remove says that the broker ended well. If it fails, the next start looks for
// what is not there.
func (j *journal) remove() {
	_ = j.file.Close()
	_ = os.Remove(j.file.Name())
}

// recoverDir completes what a killed broker left in the directory.
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

// open is a transaction that has records in a partition and no marker after
// them.
type open struct {
	topic     string
	partition int32
	producer  int64
	epoch     int16
}

// writeMarkers ends the transactions through a broker of whose port nobody
// knows. Its snapshots of the partitions, which kfake would believe rather than
// the markers, are removed.
func writeMarkers(dir string, list []open, last ending) error {
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
func openTransactions(dir string) ([]open, error) {
	partitions, err := filepath.Glob(filepath.Join(dir, "partitions", "*-*"))
	if err != nil {
		return nil, err
	}
	var list []open
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
			list = append(list, open{topic, int32(n), producer, epoch})
		}
	}
	return list, nil
}

func base(segment string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSuffix(filepath.Base(segment), ".dat"), 10, 64)
	return n
}

// Places in a record batch of format 2 (kafka.apache.org/documentation,
// "Record Batch"), and the size of an entry of kfake's index.
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

// scan follows the transactions through a segment. A batch at the end that has
// no index entry, where kfake keeps that it is of a transaction, was not yet
// answered for: it is cut off.
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
