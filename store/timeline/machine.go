package timeline

import (
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

// MachineConfig says who leases a machine id.
type MachineConfig struct {
	Client    redis.UniversalClient
	Namespace string
	Instance  string
	Local     scheduler.Local
	Log       zerolog.Logger
}

// Machine leases the machine id of this instance's uids in Redis, so that no
// two instances ever give out ids under one number, on one host or on many.
//
//	free ── acquire ──▶ waiting ── own clock > high water ──▶ held ── lease not renewed ──▶ free
//
// The lease lasts machineLease by Redis's clock. It is renewed every second;
// this instance stops giving out ids machineTrust after it sent the last
// renewal that succeeded, well before another may take the slot. With each
// renewal goes a high water: the wall clock plus highWaterAhead. A new owner
// waits until its own clock has passed it, so that two owners with clocks that
// differ never give out the same millisecond.
//
// The slots are shared out among several keys, which lie on several nodes of a
// Redis Cluster: where one does not answer, a slot of the next is leased, and the
// one that was held is left to run out.
type Machine struct {
	cfg         MachineConfig
	incarnation string
	script      *redis.Script

	tries int // how many keys have failed since the last success, of the renewing goroutine alone

	mu    sync.Mutex
	slot  int
	until time.Duration // of trust, monotonic
	from  time.Time     // no id before this wall clock
}

const (
	machineLease   = 10 * time.Second
	machineTrust   = 6 * time.Second
	machineRenew   = time.Second
	highWaterAhead = 3 * time.Second

	machineKeys  = 16
	machineSlots = 1024 / machineKeys // of each key
)

var _ scheduler.Machine = (*Machine)(nil)

// NewMachine prepares a lease; Run acquires and renews it.
func NewMachine(cfg MachineConfig) (*Machine, error) {
	s, err := loadScripts()
	if err != nil {
		return nil, err
	}
	return &Machine{cfg: cfg, incarnation: rand.Text(), script: s.machine, slot: -1}, nil
}

// ID is the slot, and whether ids may be given out under it right now.
func (m *Machine) ID() (int, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	held := m.slot >= 0 && m.cfg.Local.Mono() < m.until && m.cfg.Local.Wall().After(m.from)
	return m.slot, held
}

// Run holds the lease until ctx ends, then releases it. It returns nil: a lease that
// cannot be had is tried for again.
func (m *Machine) Run(ctx context.Context) error {
	ticker := time.NewTicker(machineRenew)
	defer ticker.Stop()
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
		case <-ticker.C:
		}
	}
}

// renew renews the lease. Where its key does not answer it acquires one under the
// next, and so on, from one renewal to another: one that is silent takes all of its
// time.
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
		if first == nil {
			first = err
		}
		if lease == 0 {
			break
		}
		if m.tries++; ctx.Err() != nil {
			break
		}
	}
	return first
}

// ask renews a slot of a key, or acquires any of it where slot is below 0.
func (m *Machine) ask(ctx context.Context, key, slot int, lease time.Duration) error {
	want := ""
	if slot >= 0 {
		want = strconv.Itoa(slot)
	}
	sent, wall := m.cfg.Local.Mono(), m.cfg.Local.Wall()
	v, err := m.script.Run(ctx, m.cfg.Client, []string{machinesKey(m.cfg.Namespace, key)}, m.incarnation,
		m.cfg.Instance, lease.Milliseconds(), want,
		wall.Add(highWaterAhead).UnixMilli(), key*machineSlots, (key+1)*machineSlots-1).Result()
	if err = translate(err); err != nil {
		return fmt.Errorf("lease machine id: %w", err)
	}
	f, err := texts(v)
	if err != nil || len(f) != 3 {
		return fmt.Errorf("lease machine id: answer of %d fields: %w", len(f), err)
	}
	got, err1 := strconv.Atoi(f[0])
	high, err2 := strconv.ParseInt(f[1], 10, 64)
	if err1 != nil || err2 != nil {
		return fmt.Errorf("lease machine id: answer %q %q", f[0], f[1])
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case got < 0:
		if slot >= 0 {
			m.slot, m.until = -1, 0
		}
		return fmt.Errorf("lease machine id: slot lost or none free: %s", f[2])
	case slot < 0:
		m.from = time.UnixMilli(high)
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
