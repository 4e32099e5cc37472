package timeline

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/scheduler"
)

// MachineConfig identifies the instance that leases a machine id.
type MachineConfig struct {
	Client    redis.UniversalClient
	Namespace string
	Instance  string
	Local     scheduler.Local
	Log       zerolog.Logger
}

// Machine leases the machine id of this instance's uids in Redis, so that no two instances ever create uids under the
// same number, on one host or on many.
//
//	free ── acquire ──▶ waiting ── own clock > high water ──▶ held ── lease not renewed ──▶ free
//
// The lease lasts machineLease by Redis's clock and is renewed every second. This instance stops creating uids
// machineTrust after it sent the last renewal that succeeded, well before another may take the slot. Each renewal
// records a high water: the wall clock plus highWaterAhead. A new owner waits until its own clock has passed it, so
// that two owners with clocks that differ never use the same millisecond.
//
// The slots are divided among several keys, which lie on several nodes of a Redis Cluster. If a key's node does not
// answer, the instance leases a slot of the next key and lets its old lease run out.
type Machine struct {
	cfg         MachineConfig
	incarnation string
	script      *script

	tries int // how many keys have failed since the last success; only the renewing goroutine uses it

	mu    sync.Mutex
	slot  int
	until time.Duration // end of trust, monotonic
	from  time.Time     // no uid before this wall clock
}

const (
	machineLease   = 10 * time.Second
	machineTrust   = 6 * time.Second
	machineRenew   = time.Second
	highWaterAhead = 3 * time.Second

	machineKeys  = 16
	machineSlots = 1024 / machineKeys // per key
)

var _ scheduler.Machine = (*Machine)(nil)

// NewMachine prepares a lease. Run acquires and renews it.
func NewMachine(cfg MachineConfig) (*Machine, error) {
	lib, err := readLibrary()
	if err != nil {
		return nil, err
	}
	s, err := lib.load("machine")
	if err != nil {
		return nil, err
	}
	return &Machine{cfg: cfg, incarnation: rand.Text(), script: s, slot: -1}, nil
}

// ID returns the slot, and reports whether uids may be created under it right now.
func (m *Machine) ID() (int, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	held := m.slot >= 0 && m.cfg.Local.Mono() < m.until && m.cfg.Local.Wall().After(m.from)
	return m.slot, held
}

// Run holds the lease until ctx ends, then releases it. It always returns nil: if no lease can be acquired, Run tries
// again.
func (m *Machine) Run(ctx context.Context) error {
	ticker := time.Tick(machineRenew)
	for {
		if err := m.renew(ctx, machineLease); err != nil && ctx.Err() == nil {
			m.cfg.Log.Warn().Err(err).Msg("machine id lease not renewed")
		}
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), machineRenew)
			defer cancel()
			if _, held := m.ID(); held {
				if err := m.renew(last, 0); err != nil {
					m.cfg.Log.Debug().Err(err).Msg("machine id lease not given back")
				}
			}
			return nil
		case <-ticker:
		}
	}
}

// renew renews the lease. If the lease's key does not answer, renew tries to acquire one under the next key, and so on;
// since a silent key takes all of a renewal's time, the next renewal continues with the next key.
func (m *Machine) renew(ctx context.Context, lease time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, machineRenew)
	defer cancel()
	m.mu.Lock()
	held := m.slot
	m.mu.Unlock()
	var first error
	for range machineKeys {
		slot, key := held, m.tries%machineKeys
		if held >= 0 {
			key = (held/machineSlots + m.tries) % machineKeys
		}
		if key != held/machineSlots {
			slot = -1
		}
		err := m.ask(ctx, key, slot, lease)
		if err == nil {
			m.tries = 0
			return nil
		}
		first = cmp.Or(first, err)
		if lease == 0 {
			break
		}
		if m.tries++; ctx.Err() != nil {
			break
		}
	}
	return first
}

// ask renews the slot of a key, or acquires any free slot of the key if slot is negative.
func (m *Machine) ask(ctx context.Context, key, slot int, lease time.Duration) error {
	want := ""
	if slot >= 0 {
		want = strconv.Itoa(slot)
	}
	sent, wall := m.cfg.Local.Mono(), m.cfg.Local.Wall()
	v, err := m.script.Run(ctx, m.cfg.Client, []string{machinesKey(m.cfg.Namespace, key)}, m.incarnation,
		m.cfg.Instance, lease.Milliseconds(), want,
		wall.Add(highWaterAhead).UnixMilli(), key*machineSlots, (key+1)*machineSlots-1).Result()
	a := newAnswer("machine", v, err)
	leased, high, holder := a.text("slot"), a.milli("high water"), a.text("holder")
	got, none := strconv.Atoi(leased)
	if err := cmp.Or(a.done(), none); err != nil {
		return fmt.Errorf("lease machine id: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case got < 0:
		if slot >= 0 {
			m.slot, m.until = -1, 0
		}
		return fmt.Errorf("lease machine id: slot lost or none free: %s", holder)
	case slot < 0:
		m.from = time.UnixMilli(int64(high))
		m.cfg.Log.Info().Int("machine", got).Dur("wait", max(m.from.Sub(wall), 0)).Msg("machine id leased")
	}
	m.slot = got
	if lease > 0 {
		m.until = sent + machineTrust
	} else {
		m.until = 0
	}
	return nil
}
