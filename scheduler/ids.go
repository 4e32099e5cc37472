package scheduler

import (
	"fmt"
	"sync"
	"time"

	"github.com/sony/sonyflake/v2"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// Machine is the right to generate ids under a machine id. A store grants it (Redis: a leased slot; memory: the data
// directory) and ensures that no two instances hold the same slot at the same time, or one after the other with
// overlapping clocks.
type Machine interface {
	// ID returns the slot, 0..1023, and whether it is held at the moment.
	ID() (int, bool)
}

// IDs generates uids of kind sonyflake: 12 bits of sequence, 10 bits of machine id, in units of a millisecond. These
// three and Epoch are fixed for the life of a deployment: changing one would break order and uniqueness.
//
// A clock that steps back never repeats an id. Sonyflake itself would sleep for the whole step while holding its lock;
// IDs returns ErrClockBack instead if the step is longer than maxClockBack.
type IDs struct {
	machine Machine
	now     func() time.Time

	mu    sync.Mutex
	flake *sonyflake.Sonyflake
	slot  int
	last  time.Time // the latest wall clock an id was given out under
}

// maxClockBack is the longest step back that is waited out: longer than what NTP slews, but short enough that nobody
// notices the pause.
const maxClockBack = 50 * time.Millisecond

// NewIDs returns a generator. now is the wall clock.
func NewIDs(machine Machine, now func() time.Time) *IDs {
	return &IDs{machine: machine, now: now, slot: -1}
}

// Next returns the next uid with the given hash, which determines its bucket.
func (g *IDs) Next(hash uint16) (message.UID, error) {
	slot, held := g.machine.ID()
	if !held {
		return "", ErrNoMachineID
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now().Round(0)
	if back := g.last.Sub(now); back > maxClockBack {
		return "", fmt.Errorf("%w by %s", ErrClockBack, back)
	}
	if g.flake == nil || g.slot != slot {
		flake, err := sonyflake.New(sonyflake.Settings{
			BitsSequence: 12, BitsMachineID: 10, TimeUnit: time.Millisecond, StartTime: message.Epoch,
			MachineID: func() (int, error) { return slot, nil },
		})
		if err != nil {
			return "", fmt.Errorf("start sonyflake as machine %d: %w", slot, err)
		}
		g.flake, g.slot = flake, slot
	}
	id, err := g.flake.NextID()
	if err != nil {
		return "", fmt.Errorf("next id: %w", err)
	}
	if now.After(g.last) {
		g.last = now
	}
	return message.GeneratedUID(id, hash), nil
}
