package stage

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Lose empties the Redis, like a restart without its disk. It returns the moment at which it was empty.
func (r *Redis) Lose(ctx context.Context) (time.Time, error) {
	if err := r.Client.FlushAllAsync(ctx).Err(); err != nil {
		return time.Time{}, fmt.Errorf("empty redis: %w", err)
	}
	return time.Now(), nil
}

// Waiting is how many messages wait in Redis, of all buckets together.
func (r *Redis) Waiting(ctx context.Context) (int, error) {
	keys, err := r.Client.Keys(ctx, "*:due").Result() // a bucket has a dozen keys, however many messages
	if err != nil {
		return 0, fmt.Errorf("look for tarry's buckets: %w", err)
	}
	var sum int64
	for _, key := range keys {
		n, err := r.Client.ZCard(ctx, key).Result()
		if err != nil {
			return 0, fmt.Errorf("count what waits in %s: %w", key, err)
		}
		sum += n
	}
	return int(sum), nil
}

// Certificates are the keys of what certifies each bucket.
func (r *Redis) Certificates(ctx context.Context) ([]string, error) {
	keys, err := r.Client.Keys(ctx, "*:gen").Result()
	if err == nil && len(keys) == 0 {
		err = errors.New("there are none")
	}
	if err != nil {
		return nil, fmt.Errorf("look for tarry's certificates: %w", err)
	}
	return keys, nil
}

const (
	restoreEvery    = 20 * time.Millisecond
	restorePatience = 15 * time.Minute
)

// Restored returns when tarry has certified every bucket as whole, is ready and leads. at is when it was seen, at most
// one look late. Whole says so in Redis; /readyz by itself would still be that of the Redis that was lost.
func (t *Tarry) Restored(ctx context.Context, certificates []string) (at time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, restorePatience)
	defer cancel()
	err = Until(ctx, restoreEvery, func(ctx context.Context) error {
		err := t.whole(ctx, certificates)
		if err == nil {
			err = t.leads(ctx)
		}
		at = time.Now()
		return err
	})
	if err != nil {
		return at, fmt.Errorf("wait until redis is restored: %w", err)
	}
	return at, nil
}

// whole returns why not all buckets are certified, or nothing. A certificate names its phase.
func (t *Tarry) whole(ctx context.Context, certificates []string) error {
	for _, key := range certificates {
		switch text, err := t.Redis.Client.Get(ctx, key).Result(); {
		case errors.Is(err, redis.Nil):
			return fmt.Errorf("%s is not there", key)
		case err != nil:
			return fmt.Errorf("read %s: %w", key, err)
		case !strings.Contains(text, " whole"):
			return fmt.Errorf("%s is %q", key, text)
		}
	}
	return nil
}

// Restore orders to restore everything, without a limit to its rate, again and again until ctx ends, which is no error.
// It returns how many messages were read from the journal, and for how long as far as tarry has said.
func (t *Tarry) Restore(ctx context.Context) (read int, took time.Duration, err error) {
	for began, refused := time.Now(), 0; ctx.Err() == nil; {
		n := 0
		err := t.restore(ctx, func(soFar int) { n, took = soFar, time.Since(began) })
		read += n
		switch {
		case errors.Is(err, errAlreadyRunning) && refused < mostRefused:
			refused++
			time.Sleep(refusedPause)
		case err != nil && ctx.Err() == nil:
			return read, took, fmt.Errorf("restore all: %w", err)
		default:
			refused = 0
		}
	}
	return read, took, nil
}

// A restore that was broken off ends on its own time, and tarry runs one at once.
var errAlreadyRunning = errors.New("a restore is running already")

const (
	refusedPause = 20 * time.Millisecond
	mostRefused  = 250 // in a row, 5 s
)

// restore orders one restore and reports its progress, line by line, and its end.
func (t *Tarry) restore(ctx context.Context, report func(read int)) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, t.URL+"/v1/restore",
		strings.NewReader(`{"dry_run":false,"rate":0}`))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/x-ndjson")
	response, err := new(http.Client).Do(request) // it may take minutes
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusConflict {
		return errAlreadyRunning
	}
	reported := false
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		var line struct {
			Progress, Report *struct{ Read int }
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return fmt.Errorf("read its progress: %w", err)
		}
		switch {
		case line.Report != nil:
			report(line.Report.Read)
			reported = true // and read on: it is over when the answer is
		case line.Progress == nil:
			return fmt.Errorf("%s: %s", response.Status, lines.Text())
		default:
			report(line.Progress.Read)
		}
	}
	if err := lines.Err(); err != nil || reported {
		return err
	}
	return fmt.Errorf("%s: its report is missing", response.Status)
}
