package memory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/scheduler"
)

// Machine is the machine id of an instance whose messages live in memory. The uids made with it outlive the instance,
// in streams and their duplicate windows. The data directory therefore records the id and a mark: a time that no uid
// has reached. Run keeps the mark ahead of the clock, and a successor starts only after it. If the mark lies further
// ahead than any crash explains, the clock went back, and the successor takes the next id instead of waiting.
//
// Without a data directory nothing outlives the process, and the id is chosen freely.
type Machine struct {
	cfg  MachineConfig
	path string
	id   int
	mark atomic.Int64 // Unix milliseconds, as in the file
}

var _ scheduler.Machine = (*Machine)(nil)

// MachineConfig configures a Machine.
type MachineConfig struct {
	// Dir is the data directory, or empty for none. Only one process may use it at a time.
	Dir string
	Log zerolog.Logger
}

const (
	machineFile = "machine"
	machineIDs  = 1 << 10
	markEvery   = time.Second
	markAhead   = 3 * time.Second
	// markSlack is the margin before the mark, because some time passes between asking for the id and using it.
	markSlack = time.Second
)

// OpenMachine reads the data directory, waits until the clock is past its mark, and takes the id. The id is held while
// Run runs.
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

// pass waits until the clock is past the mark, or moves on to the next id if that would take too long.
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

// ID returns the machine id and whether it is held. It is not held while the file cannot be written, or while the clock
// is outside the time that the file covers.
func (m *Machine) ID() (int, bool) {
	if m.path == "" {
		return m.id, true
	}
	return m.id, time.Now().UnixMilli() < m.mark.Load()-markSlack.Milliseconds()
}

// Run keeps the mark ahead of the clock until ctx ends. It then sets the mark to the clock's time, so that a successor
// need not wait.
func (m *Machine) Run(ctx context.Context) error {
	if m.path == "" {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	ticker := time.Tick(markEvery)
	for {
		select {
		case <-ctx.Done():
			return m.release(ctx)
		case <-ticker:
			if err := m.write(time.Now().Add(markAhead)); err != nil {
				m.cfg.Log.Warn().Err(err).Int("machine", m.id).Msg("cannot keep the machine id")
			}
		}
	}
}

// release gives up the id. No uid has a time beyond the clock's unless the clock went back; in that case the mark
// stays.
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

// write moves the mark in the file and then in memory. It never moves the mark back.
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

// save replaces the file with a complete one.
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
	if err := os.Rename(f.Name(), m.path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(m.path)) // else a loss of power may bring the file of before back
	if err != nil {
		return err
	}
	if err = dir.Sync(); runtime.GOOS == "windows" { // it cannot sync a directory
		err = nil
	}
	return errors.Join(err, dir.Close())
}

// parseMark parses the contents of the file.
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
