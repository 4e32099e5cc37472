package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// What the tests know of the keys in Redis: {ns:bucket}:due and {ns:bucket}:parked:<lane> are ZSETs by due time,
// ms*256, and {ns:bucket}:claimed is a HASH of uid → term:number, with one field without a name that means nothing.

// held counts what the keys of the site's namespace hold: waiting (parked ones too), due before the given time among
// those, and claimed under the given term or an older one.
func (s *site) held(ctx context.Context, rdb *redis.Client, before time.Time,
	term uint64) (waiting, overdue, claimed int64, err error) {
	keys := 0
	for scan := rdb.Scan(ctx, 0, "{"+s.ns+":*", 1000).Iterator(); ; {
		if !scan.Next(ctx) {
			if err := scan.Err(); err != nil || keys == 0 {
				return 0, 0, 0, fmt.Errorf("namespace %s has %d keys: %w", s.ns, keys, err)
			}
			return waiting, overdue, claimed, nil
		}
		keys++
		key := scan.Val()
		switch _, kind, _ := strings.Cut(key, "}:"); {
		case kind == "claimed":
			terms, err := rdb.HGetAll(ctx, key).Result()
			if err != nil {
				return 0, 0, 0, fmt.Errorf("read %s: %w", key, err)
			}
			delete(terms, "")
			for uid, text := range terms {
				number, _, _ := strings.Cut(text, ":")
				under, err := strconv.ParseUint(number, 10, 64)
				if err != nil {
					return 0, 0, 0, fmt.Errorf("%s of %s: %w", uid, key, err)
				}
				if under <= term {
					claimed++
				}
			}
		case kind == "due" || strings.HasPrefix(kind, "parked:"):
			all, err := rdb.ZCard(ctx, key).Result()
			if err != nil {
				return 0, 0, 0, fmt.Errorf("read %s: %w", key, err)
			}
			late, err := rdb.ZCount(ctx, key, "-inf", strconv.FormatInt(before.UnixMilli()*256, 10)).Result()
			if err != nil {
				return 0, 0, 0, fmt.Errorf("read %s: %w", key, err)
			}
			waiting, overdue = waiting+all, overdue+late
		}
	}
}

const anyTerm = 1<<63 - 1

// claims is what every uid that is claimed is claimed under: term:number.
func (s *site) claims(ctx context.Context, rdb *redis.Client) (map[string]string, error) {
	all := map[string]string{}
	scan := rdb.Scan(ctx, 0, "{"+s.ns+":*}:claimed", 1000).Iterator()
	for scan.Next(ctx) {
		under, err := rdb.HGetAll(ctx, scan.Val()).Result()
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", scan.Val(), err)
		}
		delete(under, "")
		maps.Copy(all, under)
	}
	return all, scan.Err()
}

// taken waits until every push in the intake is accepted or refused.
func (s *site) taken(js jetstream.JetStream) {
	s.t.Helper()
	lab.Eventually(s.t, patience, func() error {
		stream, err := js.Stream(s.t.Context(), "TARRY_"+s.ns)
		if err == nil && stream.CachedInfo().State.Msgs > 0 {
			err = fmt.Errorf("%d pushes are in the intake", stream.CachedInfo().State.Msgs)
		}
		return err
	})
}

// drained returns an error while messages wait or are claimed.
func (s *site) drained(rdb *redis.Client) error {
	waiting, _, claimed, err := s.held(s.t.Context(), rdb, time.Time{}, anyTerm)
	if err == nil && waiting+claimed > 0 {
		err = fmt.Errorf("%d messages wait and %d are claimed", waiting, claimed)
	}
	return err
}
