package journal_test

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/store/journal"
)

// BenchmarkWrite measures messages a second in batches of 500 with bodies of 256 bytes: their acceptance, then their
// end. Each is two rows, the message's and the change's. What was decided by it, in microseconds of the MariaDB
// server's processor for one message (two cores shared with others, so ±20 %):
//
//	                                              accepted   ended
//	as it is                                           38      54
//	with an index on messages.ended                    41      70   the end of most messages pays; Prune does without
//	topic index without state                          40      43   but then a page of what waits reads all that ended
//	no secondary index at all                          26      33
//	prepared for 500 rows instead of interpolated      31      50   a statement per connection, kind and batch size
//	50 rows a statement instead of 500                 46      70
//
// Interpolation costs the client 9 and 7. A commit costs 1 to 2 ms a batch, and less than a tenth of the time. On
// SQLite a prepared statement for each row and one for 100 rows cost the same.
func BenchmarkWrite(b *testing.B) {
	for _, writers := range []int{1, 4} {
		for _, store := range []string{"mariadb", "sqlite"} {
			if store == "sqlite" && writers > 1 {
				continue
			}
			b.Run(fmt.Sprintf("%s/%d", store, writers), func(b *testing.B) {
				if store == "sqlite" {
					dsn := sqliteDSN(b)
					writeRows(b, open(b, dsn), writers)
					reportDisk(b, filepath.Dir(strings.TrimPrefix(dsn, "sqlite:")))
					return
				}
				server := lab.NewMariaDB(b, "--innodb-buffer-pool-size=1G", "--innodb-log-file-size=512M")
				writeRows(b, open(b, server.Database(b)), writers)
				server.Stop()
				reportDisk(b, server.Dir())
			})
		}
	}
}

const benchRows = 500

func writeRows(b *testing.B, s *journal.SQL, writers int) {
	var batches atomic.Int64
	var accepts, ends atomic.Int64 // nanoseconds
	b.ReportAllocs()
	b.ResetTimer()
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for range (b.N + w) / writers {
				begin, end := benchBatch(int(batches.Add(1)))
				start := time.Now()
				if err := s.Write(b.Context(), map[message.Bucket]uint64{0: 1}, begin); err != nil {
					b.Error(err)
				}
				accepts.Add(int64(time.Since(start)))
				start = time.Now()
				if err := s.Write(b.Context(), map[message.Bucket]uint64{0: 1}, end); err != nil {
					b.Error(err)
				}
				ends.Add(int64(time.Since(start)))
			}
		})
	}
	writing.Wait()
	b.StopTimer()
	rows := float64(batches.Load() * benchRows * int64(writers))
	b.ReportMetric(rows/time.Duration(accepts.Load()).Seconds(), "accepts/s")
	b.ReportMetric(rows/time.Duration(ends.Load()).Seconds(), "ends/s")
}

// benchBatch are the acceptances and the ends of 500 messages.
func benchBatch(n int) (begin, end []record.Change) {
	at := message.Milli(1_900_000_000_000) + message.Milli(n)
	for i := range benchRows {
		m := &message.Message{
			Topic: fmt.Sprintf("orders.%d.remind", i%50), ID: fmt.Sprintf("order-%d-%d", n, i),
			Key: fmt.Sprintf("customer-%d", i*7919%1000), Attempt: 1,
			Body: make([]byte, 256), Headers: []message.Header{{Name: "Content-Type", Value: "application/json"}},
			Due: at + message.Milli(20*60*1000+i*i%60_000),
		}
		rand.Read(m.Body)
		uid, err := message.IntakeUID(uint64(i), at.Time(), m.ID, m.Key)
		if err != nil {
			panic(err) // the times are in range
		}
		m.UID = uid
		c := record.Change{
			UID: uid, Version: 1, State: message.StateWaiting, At: at, Bucket: uid.Bucket(4), Instance: "tarry-1",
			Address: "10.0.0.1:7000", Due: m.Due, Message: m,
		}
		begin = append(begin, c)
		c.Version, c.State, c.At, c.Message, c.Claimed, c.Attempt, c.Term, c.Stream, c.Sequence = 2,
			message.StateDelivered, m.Due+3, nil, m.Due, 1, 4, "ORDERS", uint64(i)
		end = append(end, c)
	}
	return begin, end
}

// reportDisk reports what the tables take on disk for each message.
func reportDisk(b *testing.B, dir string) {
	var bytes int64
	filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() && (strings.HasSuffix(path, "messages.ibd") ||
			strings.HasSuffix(path, "transitions.ibd") || strings.HasSuffix(path, ".db")) {
			bytes += info.Size()
		}
		return nil
	})
	b.ReportMetric(float64(bytes)/float64(b.N*benchRows), "disk-B/msg")
}
