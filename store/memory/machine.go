package memory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/scheduler"
)

// Machine is the machine id of an instance whose messages live in memory. The
// uids it gives out outlive it, in streams and their duplicate windows, so the
// data directory remembers the id and a mark: a time that no uid has reached.
// Run moves the mark ahead of the clock; a successor starts only behind it.
// Where the mark lies further ahead than any crash explains, the clock went
// back, and the next id is taken instead of waiting for it.
//
// Without a data directory nothing outlives the process and the id is chosen
// freely.
type Machine struct {
	cfg  MachineConfig
	path string
	id   int
	mark atomic.Int64 // unix milliseconds; what the file says
}

var _ scheduler.Machine = (*Machine)(nil)

// MachineConfig is what a Machine is made of.
type MachineConfig struct {
	// Dir is the data directory, empty for none. Only one process uses it at a time.
	Dir string
	Log zerolog.Logger
}

const (
	machineFile = "machine"
	machineIDs  = 1 << 10
	markEvery   = time.Second
	markAhead   = 3 * time.Second
	// markSlack is kept before the mark: between asking for the id and using it
	// some time passes.
	markSlack = time.Second
)

// OpenMachine reads what the directory remembers, waits until the clock is past
// its mark, and takes the id. It is held while Run runs.
func OpenMachine(ctx context.Context, cfg MachineConfig) (*Machine, error) {
	m := &Machine{cfg: cfg, id: rand.IntN(machineIDs)}
	if cfg.Dir == "" {
		return m, nil
	}
	m.path = filepath.Join(cfg.Dir, machineFile)
	text, err := os.ReadFile(m.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("read the machine id: %w", err)
	default:
		id, mark, err := parseMark(string(text))
		if err != nil {
			return nil, fmt.Errorf("read the machine id from %s: %w", m.path, err)
		}
		if m.id, err = pass(ctx, cfg.Log, id, mark); err != nil {
			return nil, fmt.Errorf("wait for the machine id: %w", err)
		}
	}
	if err := m.write(time.Now().Add(markAhead)); err != nil {
		return nil, fmt.Errorf("write the machine id: %w", err)
	}
	return m, nil
}

// pass waits until the clock is past the mark, or goes on to the next id when
// that would take too long.
func pass(ctx context.Context, log zerolog.Logger, id int, mark time.Time) (int, error) {
	for {
		ahead := time.Until(mark)
		if ahead < 0 {
			return id, nil
		}
		if ahead > markAhead+markEvery {
			next := (id + 1) % machineIDs
			log.Warn().Int("machine", id).Int("next", next).Dur("behind", ahead).Msg(
				"the clock went back, taking the next machine id")
			return next, nil
		}
		log.Info().Int("machine", id).Dur("wait", ahead).Msg("waiting for the clock to pass the last run")
		timer := time.NewTimer(ahead + time.Millisecond)
		select {
		case <-ctx.Done():
			timer.Stop()
			return 0, context.Cause(ctx)
		case <-timer.C:
		}
	}
}

// ID is the machine id. It is not held while the file could not be written, or
// while the clock is where the file does not cover it.
func (m *Machine) ID() (int, bool) {
	if m.path == "" {
		return m.id, true
	}
	return m.id, time.Now().UnixMilli() < m.mark.Load()-markSlack.Milliseconds()
}

// Run keeps the mark ahead of the clock until ctx ends; then it leaves the mark
// where the clock stands, so that a successor need not wait.
func (m *Machine) Run(ctx context.Context) error {
	if m.path == "" {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	ticker := time.NewTicker(markEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return m.release(ctx)
		case <-ticker.C:
			if err := m.write(time.Now().Add(markAhead)); err != nil {
				m.cfg.Log.Warn().Err(err).Int("machine", m.id).Msg("cannot keep the machine id")
			}
		}
	}
}

// release gives the id up. No uid has a time beyond the clock's, unless the
// clock went back: then the mark stays.
func (m *Machine) release(ctx context.Context) error {
	mark := m.mark.Swap(0)
	now := time.Now()
	if behind := time.UnixMilli(mark).Sub(now); behind <= markAhead {
		if err := m.save(now.Add(time.Millisecond)); err != nil {
			return fmt.Errorf("release the machine id: %w", err)
		}
	}
	return context.Cause(ctx)
}

// write moves the mark in the file, then here; it never moves back.
func (m *Machine) write(mark time.Time) error {
	if mark.UnixMilli() <= m.mark.Load() {
		return nil
	}
	if err := m.save(mark); err != nil {
		return err
	}
	m.mark.Store(mark.UnixMilli())
	return nil
}

// save replaces the file by a complete one.
func (m *Machine) save(mark time.Time) error {
	f, err := os.OpenFile(m.path+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "machine %d\nmark %d\n", m.id, mark.UnixMilli())
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), m.path)
}

// parseMark reads the file.
func parseMark(text string) (id int, mark time.Time, err error) {
	first, second, _ := strings.Cut(strings.TrimSuffix(text, "\n"), "\n")
	number, ok := strings.CutPrefix(first, "machine ")
	if id, err = strconv.Atoi(number); !ok || err != nil || id < 0 || id >= machineIDs {
		return 0, mark, fmt.Errorf("line %.40q: want \"machine\" and a number below %d", first, machineIDs)
	}
	number, ok = strings.CutPrefix(second, "mark ")
	ms, err := strconv.ParseInt(number, 10, 64)
	if !ok || err != nil || ms < 0 {
		return 0, mark, fmt.Errorf("line %.40q: want \"mark\" and unix milliseconds", second)
	}
	return id, time.UnixMilli(ms), nil
}
