package journal

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"

	"github.com/tarry-mq/tarry/scheduler"
)

// A write locks the rows of its fences, shared with other writes, until it is
// over; Fence changes the row and so waits for all of them. A row that is
// missing could not be locked: it is made first, with number 0.

// Fence raises a bucket's certification.
func (s *SQL) Fence(ctx context.Context, bucket int, number uint64) error {
	_, err := s.write.ExecContext(ctx, "INSERT INTO fences (bucket, number) VALUES (?, ?)"+s.kind.conflict+
		"number = "+s.kind.greatest+"(fences.number, "+s.kind.incoming("number")+")", bucket, int64(number))
	if err != nil {
		return fmt.Errorf("raise the fence of bucket %d to %d: %w", bucket, number, err)
	}
	return nil
}

// Fences are the certifications that stand, by bucket.
func (s *SQL) Fences(ctx context.Context) (map[int]uint64, error) {
	found, err := fences(ctx, s.read, "WHERE number > 0")
	if err != nil {
		return nil, fmt.Errorf("read the fences: %w", err)
	}
	return found, nil
}

// checkFences refuses what was made under a lower certification than stands,
// and holds those that it saw until the transaction is over.
func (s *SQL) checkFences(ctx context.Context, tx *sql.Tx, want map[int]uint64) error {
	if len(want) == 0 {
		return nil
	}
	buckets := slices.Sorted(maps.Keys(want))
	stand, err := fences(ctx, tx, "WHERE bucket IN ("+questions(len(buckets))+") ORDER BY bucket"+s.kind.share,
		anys(buckets)...)
	if err != nil {
		return fmt.Errorf("check the fences: %w", err)
	}
	for _, b := range buckets {
		if stand[b] > want[b] {
			return fmt.Errorf("bucket %d under certification %d, and %d stands: %w", b, want[b], stand[b],
				scheduler.ErrFenced)
		}
	}
	return nil
}

// makeFences makes the rows that checkFences locks, once a process and bucket.
func (s *SQL) makeFences(ctx context.Context, want map[int]uint64) error {
	for _, bucket := range slices.Sorted(maps.Keys(want)) {
		if _, made := s.fenced.Load(bucket); made {
			continue
		}
		if err := s.Fence(ctx, bucket, 0); err != nil {
			return err
		}
		s.fenced.Store(bucket, true)
	}
	return nil
}

func fences(ctx context.Context, from queryer, where string, args ...any) (map[int]uint64, error) {
	found := map[int]uint64{}
	err := each(ctx, from, "SELECT bucket, number FROM fences "+where, args, func(row scanner) error {
		var bucket int
		var number int64
		err := row.Scan(&bucket, &number)
		found[bucket] = uint64(number)
		return err
	})
	return found, err
}
