package election

import (
	"context"
	"errors"
	"time"
)

var (
	// ErrLost is the cause of every leadership context that has ended. The text of the cause says why.
	ErrLost = errors.New("leadership lost")

	// ErrResigned is the cause if leadership was given up on purpose. It Is ErrLost too.
	ErrResigned error = &resigned{}

	// ErrNotLeader is returned by Resign if this instance does not lead.
	ErrNotLeader = errors.New("this instance does not lead")

	// ErrNotGone means that the instance to forget is registered, or never was.
	ErrNotGone = errors.New("no instance of this name is gone")

	// ErrUnreachable means that ZooKeeper did not answer. The value returned with it is the last known state.
	ErrUnreachable = errors.New("zookeeper unreachable")

	// ErrDuplicateInstance ends Run: another live process is registered under this instance's name.
	ErrDuplicateInstance = errors.New("instance name is taken")

	// ErrHeld means that another process holds a lock. The error text names the process.
	ErrHeld = errors.New("another instance holds the lock")

	// ErrSolo is returned by Resign if no other instance could take over.
	ErrSolo = errors.New("a single instance cannot resign: nobody could take over")

	// ErrRunning is returned by a second Run while the first has not returned.
	ErrRunning = errors.New("election is already running")
)

// resigned is the type of ErrResigned: an ErrLost with a text of its own.
type resigned struct{}

func (*resigned) Error() string { return "leadership given up" }
func (*resigned) Unwrap() error { return ErrLost }

// Lead does the leader's work. Its context ends, with a cause that Is ErrLost, before another instance can win. Lead
// must then return soon, because until it does no other instance can take over in an orderly way. If Lead returns while
// its context is alive, it gives up leadership; the error says why.
type Lead func(ctx context.Context, term uint64) error

// Leader identifies the leader.
type Leader struct {
	Instance string    `json:"instance"`
	Address  string    `json:"address"`
	Term     uint64    `json:"term"`
	Since    time.Time `json:"since"`
}

// Member is a live instance, leader or standby.
type Member struct {
	Instance string    `json:"instance"`
	Address  string    `json:"address"`
	Version  string    `json:"version"`
	Healthy  bool      `json:"healthy"`
	Store    string    `json:"store,omitempty"`  // the store it keeps messages in; empty if unknown
	Linked   bool      `json:"linked,omitempty"` // as a standby, its link to the leader stands
	Since    time.Time `json:"since"`
	Told
}

// Told is what an instance says of itself beside that. No election depends on it, and an older instance says nothing.
type Told struct {
	Unready  bool   `json:"unready,omitempty"`  // it takes no pushes
	Lacks    string `json:"lacks,omitempty"`    // what its checks find amiss, with commas between
	Settings string `json:"settings,omitempty"` // digests of what should be the same everywhere, as name:digest
	Restored string `json:"restored,omitempty"` // how many messages its store had lost and got back, and when
}

// Gone is an instance that was registered and is not, and when it last was.
type Gone struct {
	Member
	Seen time.Time
}

// Role is an instance's role in a race. The picture in the package comment shows how it changes.
type Role string

const (
	Disconnected Role = "disconnected"
	Standby      Role = "standby"
	Candidate    Role = "candidate"
	Leading      Role = "leader"
	Resigning    Role = "resigning"
)

// State is for /readyz and logs. It proves nothing; only the leadership context does.
type State struct {
	Role Role
	Term uint64 // term of the running leadership, else 0
	Err  error  // the last error; nil once the operation works again
}
