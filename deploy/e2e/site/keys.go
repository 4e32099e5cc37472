package site

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

// Held counts what the keys of the site's namespace hold: waiting (parked ones too), due before the given time among
// those, and claimed under the given term or an older one.
func (s *Site) Held(ctx context.Context, rdb *redis.Client, before time.Time,
	term uint64) (waiting, overdue, claimed int64, err error) {
	keys := 0
	for scan := rdb.Scan(ctx, 0, "{"+s.Ns+":*", 1000).Iterator(); ; {
		if !scan.Next(ctx) {
			if err := scan.Err(); err != nil || keys == 0 {
				return 0, 0, 0, fmt.Errorf("namespace %s has %d keys: %w", s.Ns, keys, err)
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

const AnyTerm = 1<<63 - 1

// Claims is what every uid that is claimed is claimed under: term:number.
func (s *Site) Claims(ctx context.Context, rdb *redis.Client) (map[string]string, error) {
	all := map[string]string{}
	scan := rdb.Scan(ctx, 0, "{"+s.Ns+":*}:claimed", 1000).Iterator()
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

// Taken waits until every push in the intake is accepted or refused.
func (s *Site) Taken(js jetstream.JetStream) {
	s.T.Helper()
	lab.Eventually(s.T, Patience, func() error {
		stream, err := js.Stream(s.T.Context(), "TARRY_"+s.Ns)
		if err == nil && stream.CachedInfo().State.Msgs > 0 {
			err = fmt.Errorf("%d pushes are in the intake", stream.CachedInfo().State.Msgs)
		}
		return err
	})
}

// Drained returns an error while messages wait or are claimed. It names the first that waits in each place.
func (s *Site) Drained(rdb *redis.Client) error {
	ctx := s.T.Context()
	waiting, _, claimed, err := s.Held(ctx, rdb, time.Time{}, AnyTerm)
	if err != nil || waiting+claimed == 0 {
		return err
	}
	var first []string
	for scan := rdb.Scan(ctx, 0, "{"+s.Ns+":*", 1000).Iterator(); scan.Next(ctx); {
		key := scan.Val()
		if _, kind, _ := strings.Cut(key, "}:"); kind != "due" && !strings.HasPrefix(kind, "parked:") {
			continue
		}
		for _, one := range rdb.ZRangeWithScores(ctx, key, 0, 0).Val() {
			due := time.UnixMilli(int64(one.Score) / 256).UTC().Format(time.RFC3339Nano)
			first = append(first, fmt.Sprintf("%s in %s, due at %s", one.Member, key, due))
		}
	}
	return fmt.Errorf("%d messages wait and %d are claimed: %s", waiting, claimed, strings.Join(first, "; "))
}
